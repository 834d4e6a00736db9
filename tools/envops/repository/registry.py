"""registry.yaml: what is published and what is trained."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from envops.repository.document import Document, load_document, place
from envops.repository.problem import DeclarationError, Problem
from envops.repository.run import RunSpec, run_spec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from envops.repository.package import Generation

REGISTRY_FILE = "registry.yaml"
Visibility = Literal["PUBLIC", "PRIVATE"]


@dataclass(frozen=True)
class SmokeGate:
    """Size and limits of the smoke evaluation."""

    tasks: int = 10
    rollouts: int = 3
    max_concurrent: int = 32
    timeout_s: float = 300.0


@dataclass(frozen=True)
class DistributionGate:
    """Thresholds of the distribution gate; rewards are taken as a share of the declared range."""

    min_rollouts: int = 20
    min_mean: float = 0.05
    max_mean: float = 0.95
    min_std: float = 0.05
    min_format: float = 0.3
    min_live_groups: float = 0.3
    group_size: int = 8
    confidence: float = 0.95
    tasks: int = 16
    """Tasks that the blend plays, each as often as a group is large."""
    max_truncated: float = 0.15
    max_timeouts: float = 0.15
    max_errors: float = 0.15
    max_drop: float = 0.1
    """How much less than the baseline the mean reward may be."""


@dataclass(frozen=True)
class Gates:
    """Settings of the gates, registry defaults already merged in."""

    smoke: SmokeGate = SmokeGate()
    distribution: DistributionGate = DistributionGate()


@dataclass(frozen=True)
class EnvironmentEntry:
    """One environment of this repository, as the registry declares it."""

    name: str
    visibility: Visibility = "PRIVATE"
    owner: str = ""
    """Slug of the Hub user or team it is published under; the registry's where it names none."""
    owners: tuple[str, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)
    probe_args: Mapping[str, Any] = field(default_factory=dict)
    """On top of `args` when a tiny model is trained on it: tasks that are small enough."""
    secrets: tuple[str, ...] = ()
    publish_evals: bool = False
    gates: Gates = Gates()
    ignore: Mapping[str, str] = field(default_factory=dict)
    """Rule id → the reason why it is ignored here."""
    line: int | None = None

    @property
    def folder_name(self) -> str:
        """The folder below `environments/`, which is also the name of the module."""
        return self.name.replace("-", "_")


@dataclass(frozen=True)
class ExternalEntry:
    """An environment that is on the Hub already and only used by runs."""

    name: str
    hub_owner: str
    hub_name: str
    version: str
    line: int | None = None
    generation: Generation | None = None


@dataclass(frozen=True)
class Registry:
    """The whole of registry.yaml."""

    owner: str
    environments: Mapping[str, EnvironmentEntry]
    external: Mapping[str, ExternalEntry] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """As written."""
    specs: Mapping[str, RunSpec] = field(default_factory=dict)
    """The same runs, read."""
    run_lines: Mapping[str, int] = field(default_factory=dict)
    """Where each run is declared."""


def load_registry(root: Path) -> Registry:
    """Read and check registry.yaml below the repository's root.

    Raises `DeclarationError` with every problem of the file.
    """
    return registry_of(load_document(root / REGISTRY_FILE, root))


def registry_of(document: Document) -> Registry:
    """The registry that a document declares.

    Raises `DeclarationError` with every problem of the document.
    """
    if not isinstance(document.data, dict):
        found = "an empty file" if document.data is None else type(document.data).__name__
        message = "is not a registry"
        raise DeclarationError(
            [Problem(document.file, 1, message, found=found, allowed="a mapping with version, owner")]
        )
    from envops.repository.references import reference_problems
    from envops.repository.schema import schema_problems

    problems = [*document.problems, *schema_problems(document), *reference_problems(document)]
    if problems:
        raise DeclarationError(problems)
    return _build(document)


def _build(document: Document) -> Registry:
    data = document.data
    environments, external = {}, {}
    for name, declared in data["environments"].items():
        line = document.line(("environments", name))
        if declared and "hub" in declared:
            external[name] = _external(name, declared, line)
        else:
            environments[name] = _entry(name, declared or {}, data.get("defaults", {}), data["owner"], line)
    runs = data.get("runs", {})
    run_lines = {name: document.line(("runs", name)) or 1 for name in runs}
    lines = _lines_of_runs(document)
    specs = {name: run_spec(name, run, lines.get(name, {}), document.file) for name, run in runs.items()}
    return Registry(data["owner"], environments, external, runs, specs, run_lines)


def _external(name: str, declared: Mapping[str, Any], line: int | None) -> ExternalEntry:
    address, _, version = declared["hub"].partition("@")
    owner, _, hub_name = address.partition("/")
    return ExternalEntry(name, owner, hub_name, version, line, declared.get("generation"))


def _lines_of_runs(document: Document) -> dict[str, dict[str, int]]:
    """Run → where each of its keys stands."""
    found: dict[str, dict[str, int]] = {}
    for steps, line in document.lines.items():
        if len(steps) > 1 and steps[0] == "runs":
            found.setdefault(str(steps[1]), {})[place(steps[2:])] = line
    return found


def _entry(
    name: str, declared: Mapping[str, Any], defaults: Mapping[str, Any], owner: str, line: int | None
) -> EnvironmentEntry:
    gates = Gates()
    for source in (defaults.get("gates", {}), declared.get("gates", {})):
        smoke = _override(gates.smoke, source.get("smoke", {}))
        gates = Gates(smoke, _override(gates.distribution, source.get("distribution", {})))
    return EnvironmentEntry(
        name=name,
        visibility=declared.get("visibility", defaults.get("visibility", "PRIVATE")),
        owner=declared.get("owner", owner),
        owners=tuple(declared.get("owners", ())),
        args=declared.get("args", {}),
        probe_args=declared.get("probe", {}).get("args", {}),
        secrets=tuple(declared.get("secrets", ())),
        publish_evals=declared.get("publish_evals", False),
        gates=gates,
        ignore=declared.get("ignore", {}),
        line=line,
    )


_Settings = TypeVar("_Settings", SmokeGate, DistributionGate)


def _override(settings: _Settings, values: Mapping[str, Any]) -> _Settings:
    """The settings with some values replaced, each as the kind of number that it is."""
    kinds = {name: type(getattr(settings, name)) for name in values}
    return replace(settings, **{name: kinds[name](value) for name, value in values.items()})
