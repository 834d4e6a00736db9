"""Finding a run that is to be followed: by its name in the registry, its id on the platform, or its files."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envops.facts.training_log import NoMetrics, RunMetrics, metrics_of_rows, read_metrics
from envops.hub.access import the_platform
from envops.hub.runs import PlatformRun, list_runs, read_run
from envops.repository.package import Package
from envops.repository.problem import nearest
from envops.repository.registry import REGISTRY_FILE, Registry, load_registry
from envops.repository.repository import Repository
from envops.repository.run import RunSpec
from envops.rules.runs.trainers import TRAINERS
from envops.training.follow import Followed
from envops.training.identity import RunIdentity

OUTPUTS = "outputs"
"""Where compiled runs of one's own machine write to, below the repository."""


class NotFound(Exception):
    """There is no such run; the message says what was looked for."""


@dataclass(frozen=True)
class Place:
    """The repository that a run is looked for in."""

    root: Path
    registry: Registry | None

    @property
    def text(self) -> str:
        """The registry as it is written, for patches."""
        path = self.root / REGISTRY_FILE
        return path.read_text(encoding="utf-8") if path.is_file() else ""


def place_of(root: Path) -> Place:
    """The repository at a folder, or none; raises `DeclarationError` where its registry is wrong."""
    root = root.absolute()
    return Place(root, load_registry(root) if (root / REGISTRY_FILE).is_file() else None)


def followed(place: Place, target: str, declared_as: str | None, stop: threading.Event) -> Followed:
    """The run that `target` names, as it is now.

    Raises `NotFound`, `NoMetrics`, `RunsUnreadable`, `HubUnavailable`, `Interrupted`.
    """
    specs = place.registry.specs if place.registry else {}
    if declared_as is not None and declared_as not in specs:
        near = nearest(declared_as, specs)
        raise NotFound(
            f"there is no run {declared_as} in {REGISTRY_FILE}" + (f"; did you mean {near}?" if near else "")
        )
    path = Path(target)
    if path.exists():
        spec = specs.get(declared_as or "") or next((specs[part] for part in path.parts if part in specs), None)
        name = declared_as or (spec.name if spec else path.resolve().stem or path.resolve().parent.name)
        return _of_files(place, name, spec, read_metrics(path))
    spec = specs.get(target)
    if spec is not None and not TRAINERS[spec.backend].hosted:
        folder = place.root / OUTPUTS / spec.name
        if not folder.exists():
            raise NoMetrics(f"{spec.name} runs on a machine of one's own and {folder} is not here; name its folder")
        return _of_files(place, spec.name, spec, read_metrics(folder))
    if spec is None and ("/" in target or target.endswith((".jsonl", ".json", ".csv", ".log"))):
        raise NotFound(f"{target} does not exist")
    return _of_platform(place, target, spec or specs.get(declared_as or ""), stop)


def _of_files(place: Place, name: str, spec: RunSpec | None, metrics: RunMetrics) -> Followed:
    notes = tuple(f"could not be read: {note}" for note in metrics.notes[:10])
    return Followed(name, metrics, spec, notes=notes, packages=_packages(place, spec))


def _of_platform(place: Place, target: str, spec: RunSpec | None, stop: threading.Event) -> Followed:
    prime, access = the_platform("or name a file of metrics")
    found = _platform_run(target, spec, list_runs(prime, access, stop))
    if found is None:
        if spec is None:
            known = ", ".join(place.registry.specs) if place.registry else ""
            raise NotFound(f"{target} is no file, no declared run ({known}), and no run of the platform")
        empty = metrics_of_rows([], "the platform")
        return Followed(spec.name, empty, spec, "MISSING", notes=("it was never submitted, or it is gone",))
    details = read_run(prime, access, found.id, stop)
    if details is None:
        return Followed(target, metrics_of_rows([], "the platform"), spec, "MISSING", found.name)
    if spec is None and place.registry is not None:
        spec = next((each for each in place.registry.specs.values() if _is_of(each, found.name)), None)
    return Followed(
        name=spec.name if spec else found.name or found.id,
        metrics=metrics_of_rows(details.metrics, f"the platform, run {found.id}", details.log),
        spec=spec,
        status=details.run.status,
        identity=found.name,
        model=details.model,
        planned_steps=details.max_steps,
        started=found.created,
        dollars=details.dollars,
        checkpoints=details.checkpoints,
        samples=details.samples,
        histogram=details.histogram,
        notes=tuple(f"could not be read: {what}" for what in details.unread),
        packages=_packages(place, spec),
    )


def _platform_run(target: str, spec: RunSpec | None, listed: tuple[PlatformRun, ...]) -> PlatformRun | None:
    """The run of this id or name, or the newest version of a declared one."""
    exact = next((run for run in listed if target in (run.id, run.name)), None)
    return exact or next((run for run in listed if spec is not None and _is_of(spec, run.name)), None)


def _is_of(spec: RunSpec, name: str) -> bool:
    return RunIdentity(spec.name, "").is_another_version(name)


def _packages(place: Place, spec: RunSpec | None) -> Mapping[str, Package]:
    if spec is None or place.registry is None:
        return {}
    local = sorted({source.id for source in spec.environments} & set(place.registry.environments))
    return Repository.load(place.root, local, with_locks=False).packages if local else {}
