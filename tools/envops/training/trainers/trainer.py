"""What a backend is: a declared run in, the trainer's own configuration and command out.

Every backend is one module of `envops.training.trainers` with a function
`compile_run(request) -> Compiled`; `backends.compile_run` finds it by name. What a backend
can run is data (`judge/trainers.py`); how a run is submitted and followed depends on
`Compiled.door` alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from envops.rules.runs.trainers import TRAINERS, Trainer
from envops.training.trainers.native_config import NativeConfig, origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envops.repository.package import Package
    from envops.repository.registry import EnvironmentEntry, ExternalEntry, Registry
    from envops.repository.run import RunSpec, Source

CONFIG_FOLDER = "configs/rl"
Door = Literal["hosted", "command", "here"]
"""hosted: submitted to the platform; command: started by hand on a machine of one's own; here: by `envops train`."""


class CompileError(ValueError):
    """The declaration has no form in this trainer's configuration; the message says why."""


@dataclass(frozen=True)
class Environment:
    """One environment of the registry, as trainers have to name it."""

    name: str
    module: str
    hub: str
    """owner/name on the Hub."""
    version: str
    generation: str | None
    external: bool = False
    requires: tuple[str, ...] | None = None
    """What the package requires of verifiers; `None` where its code is not here."""
    pinned: str | None = None
    """The release of verifiers that it was proven with."""
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """A run and what its environments are."""

    spec: RunSpec
    environments: Mapping[str, Environment]
    name: str | None = None
    """The name that the run is submitted under; only on the way to the platform."""

    @property
    def trainer(self) -> Trainer:
        """What is known of the backend."""
        return TRAINERS[self.spec.backend]

    def environment(self, source: Source) -> Environment:
        """What a source of the mix refers to."""
        return self.environments[source.id]

    def only_source(self) -> Source:
        """The one environment of a backend that takes one; raises `CompileError` for a mix."""
        if len(self.spec.environments) > 1:
            message = f"{self.trainer.title} trains on one environment, {len(self.spec.environments)} are declared"
            raise CompileError(message)
        return self.spec.environments[0]

    def tasks_per_step(self, source: Source) -> int:
        """The batch in tasks, for trainers that count these; raises `CompileError` where a group would be torn."""
        group = self.spec.group_size(source)
        if self.spec.batch_size % group:
            raise CompileError(f"batch_size {self.spec.batch_size} is no multiple of {group} rollouts per example")
        return self.spec.batch_size // group


@dataclass(frozen=True)
class Compiled:
    """A run in its trainer's own terms."""

    run: str
    backend: str
    door: Door
    files: Mapping[str, str]
    """Path below the repository → text; the first is the configuration itself."""
    command: tuple[str, ...]
    """What starts it, from the repository's root."""
    native: NativeConfig
    notes: tuple[str, ...] = ()
    """What a reader should know: conversions of units, what was left out, what has to be there first."""
    secrets: tuple[str, ...] = ()
    """Names of variables that have to be set where the command runs."""
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """The batch as the trainer counts it and other conversions, for reports."""


def environment_of(name: str, registry: Registry, packages: Mapping[str, Package]) -> Environment:
    """What trainers need of an environment of the registry, from its declaration and its package."""
    if name in registry.external:
        return _external(registry.external[name])
    return _local(registry.environments[name], packages.get(name))


def _external(entry: ExternalEntry) -> Environment:
    hub = f"{entry.hub_owner}/{entry.hub_name}"
    module = entry.hub_name.replace("-", "_")
    return Environment(entry.name, module, hub, entry.version, entry.generation, external=True)


def _local(entry: EnvironmentEntry, package: Package | None) -> Environment:
    hub = f"{entry.owner}/{entry.name}"
    if package is None:
        return Environment(entry.name, entry.folder_name, hub, "", None, secrets=entry.secrets)
    wanted = tuple(text for text in package.requires if text.replace("[", " ").split()[0].startswith("verifiers"))
    return Environment(
        name=entry.name,
        module=package.module,
        hub=hub,
        version=package.version,
        generation=package.generation,
        requires=wanted,
        pinned=package.lock.pins.get("verifiers") if package.lock else None,
        secrets=entry.secrets,
    )


def heading(request: Request, file: str, *lines: str) -> list[str]:
    """The comment that every compiled file begins with."""
    spec = request.spec
    return [
        f"Run {spec.name} for {request.trainer.title}: {file}",
        f"Compiled from {spec.file} (runs.{spec.name}) by `envops train compile`; do not edit by hand.",
        *lines,
    ]


def file_path(request: Request, ending: str) -> str:
    """Where a compiled file of the run lies."""
    return f"{CONFIG_FOLDER}/{request.spec.name}.{ending}"


def advantage_of(spec: RunSpec, known: Mapping[str, str]) -> str:
    """What a trainer calls the declared algorithm; raises `CompileError` where it has none."""
    if spec.algorithm not in known:
        raise CompileError(f"{spec.backend} has no algorithm {spec.algorithm}; it has {', '.join(known)}")
    return known[spec.algorithm]


def with_overrides(config: NativeConfig, spec: RunSpec) -> NativeConfig:
    """The declared overrides, merged last."""
    config.merge(spec.overrides, origin_of_overrides(spec))
    return config


def origin_of_overrides(spec: RunSpec) -> str:
    """How a value that was overridden is commented."""
    return f"runs.{spec.name}.overrides"


__all__ = [
    "CONFIG_FOLDER",
    "CompileError",
    "Compiled",
    "Door",
    "Environment",
    "Request",
    "advantage_of",
    "environment_of",
    "file_path",
    "heading",
    "origin",
    "origin_of_overrides",
    "with_overrides",
]
