"""Training runs that are due after a release: planned with it, submitted after it, and by `train` alone.

`envops.training.due` decides what happens to a run, `envops.training.submit` submits it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from envops.hub.access import HubAccess, HubUnavailable, Prime
from envops.hub.client import HubCall, ask_hub
from envops.hub.runs import PlatformRun, RunsUnreadable, list_runs
from envops.release.steps import PlannedRun, address_of
from envops.repository.git import git
from envops.repository.package import Package
from envops.repository.registry import Registry
from envops.repository.repository import Repository
from envops.repository.workspace import Workspace
from envops.rules.runs.trainers import TRAINERS
from envops.training.declared_runs import DeclaredRun, declared_runs
from envops.training.due import Fate, Standing, fate_of
from envops.training.identity import RunIdentity, identity_of
from envops.training.submit import Platform, submit


@dataclass(frozen=True)
class Situation:
    """Everything that decides about runs."""

    root: Path
    registry: Registry
    access: HubAccess
    prime: Prime | None
    """`None` where the Hub is not used; then it is unknown what was submitted."""
    ready: frozenset[str]
    """Environments that are, or with this release will be, on the Hub as they are declared."""
    stop: threading.Event


@dataclass(frozen=True)
class SubmittedRun:
    """The result for one run."""

    name: str
    outcome: str
    """submitted, already-submitted, waits, failed or unknown."""
    message: str
    next: str = ""
    id: str = ""


@dataclass(frozen=True)
class DecidedRun:
    """A declared run, its name on the platform, and what will happen to it."""

    run: DeclaredRun
    identity: RunIdentity
    fate: Fate


def planned_runs(situation: Situation) -> tuple[PlannedRun, ...]:
    """What would happen to each declared run."""
    return tuple(
        PlannedRun(each.run.spec.name, each.run.spec.backend, each.fate.action, each.fate.reason, each.fate.next)
        for each in decided_runs(situation)
    )


def submit_runs(situation: Situation, planned: tuple[PlannedRun, ...]) -> tuple[SubmittedRun, ...]:
    """Submit the planned runs, each once, where all of their environments are ready."""
    due = [run.name for run in planned if run.action == "submit"]
    if not due:
        return ()
    return tuple(carry_out(situation, each) for each in decided_runs(situation, due))


def decided_runs(
    situation: Situation, names: Collection[str] | None = None, asked: Collection[str] = ()
) -> list[DecidedRun]:
    """What will happen to each run, or to those in `names`; `asked` are runs that the user named.

    Raises `DeclarationError`, `HubUnavailable` and `Interrupted`.
    """
    registry = situation.registry
    specs = [spec for name, spec in registry.specs.items() if names is None or name in names]
    if not specs:
        return []
    used = {source.id for spec in specs for source in (*spec.environments, *spec.evaluated)}
    local = sorted(used & set(registry.environments))
    packages: Mapping[str, Package] = Repository.load(situation.root, local).packages if local else {}
    runs = declared_runs(registry, packages, specs)
    platform, unreadable = _platform_runs(situation, runs)
    ready = situation.ready | (_external_ready(situation, runs) if platform is not None else frozenset())
    commit = git(situation.root, "rev-parse", "HEAD").stdout.decode("ascii", "replace").strip()
    return [_decided(run, registry, packages, commit, platform, unreadable, ready, asked) for run in runs]


def carry_out(situation: Situation, each: DecidedRun) -> SubmittedRun:
    """Submit one run if it is due; the result in any case."""
    name, fate = each.run.spec.name, each.fate
    if fate.action == "submitted":
        return SubmittedRun(name, "already-submitted", fate.reason, fate.next, fate.found.id if fate.found else "")
    if fate.action != "submit" or situation.prime is None:
        outcome = "waits" if fate.action in ("waits", "manual") else "unknown"
        outcome = "failed" if fate.action == "refused" else outcome
        return SubmittedRun(name, outcome, fate.reason, fate.next)
    notes = Workspace(situation.root).base
    platform = Platform(situation.prime, situation.access, notes, situation.stop)
    said = submit(each.run.request, each.identity, platform)
    return SubmittedRun(name, said.outcome, said.message, said.next, said.id)


def _decided(
    run: DeclaredRun,
    registry: Registry,
    packages: Mapping[str, Package],
    commit: str,
    platform: tuple[PlatformRun, ...] | None,
    unreadable: str,
    ready: frozenset[str],
    asked: Collection[str],
) -> DecidedRun:
    spec, trainer = run.spec, TRAINERS[run.spec.backend]
    identity = identity_of(run.request, registry.runs[spec.name], packages, commit)
    needed = dict.fromkeys(source.id for source in (*spec.environments, *spec.evaluated))
    standing = Standing(
        spec=spec,
        identity=identity,
        hosted=trainer.hosted,
        retired=trainer.retired,
        failing=tuple(dict.fromkeys(finding.rule for finding in run.findings if finding.counts)),
        missing=tuple(name for name in needed if name not in ready),
        platform=platform,
        unreadable=unreadable,
        named=spec.name in asked,
        command=" ".join(run.compiled.command) if run.compiled else "",
    )
    return DecidedRun(run, identity, fate_of(standing))


def _platform_runs(situation: Situation, runs: Iterable[DeclaredRun]) -> tuple[tuple[PlatformRun, ...] | None, str]:
    hosted = any(TRAINERS[run.spec.backend].hosted and not TRAINERS[run.spec.backend].retired for run in runs)
    if situation.prime is None or not hosted:
        return None, ""
    try:
        return list_runs(situation.prime, situation.access, situation.stop), ""
    except RunsUnreadable as error:
        return None, str(error)


def _external_ready(situation: Situation, runs: Iterable[DeclaredRun]) -> frozenset[str]:
    """The external environments of hosted runs that are on the Hub at their version."""
    external = situation.registry.external
    wanted = {
        source.id
        for run in runs
        if TRAINERS[run.spec.backend].hosted
        for source in (*run.spec.environments, *run.spec.evaluated)
        if source.id in external
    }
    if not wanted or situation.prime is None:
        return frozenset()
    calls = []
    for name in sorted(wanted):
        address, _, version = address_of(external[name]).partition("@")
        calls.append(HubCall(name, f"/environmentshub/{address}/@{version}"))
    try:
        answers = ask_hub(situation.prime, situation.access, calls, situation.stop)
    except HubUnavailable:
        return frozenset()
    return frozenset(name for name in wanted if answers[name].outcome == "ok")
