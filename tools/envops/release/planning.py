"""Making a release plan from what is declared, the history in git, and the state of the Hub."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envops.facts.observed import Facts
from envops.hub.access import INSTALL, HubAccess, HubUnavailable, Prime, find_prime, hub_access
from envops.hub.state import HubState, read_hub
from envops.release.due_runs import planned_runs
from envops.release.steps import WRITES, Desired, ReleasePlan, ReleaseStep, address_of, external_step, orphans, step_of
from envops.repository.changes import Change, changed_environments
from envops.repository.git import ContentMissing
from envops.repository.package import Package
from envops.repository.problem import DeclarationError
from envops.repository.registry import EnvironmentEntry, Registry, load_registry
from envops.repository.release_history import ReleaseContent, release_content, release_history
from envops.repository.repository import ENVIRONMENTS_FOLDER, Repository
from envops.rules.engine import Finding, Subject, findings, publishing_findings
from envops.training.due import Situation


@dataclass(frozen=True)
class Planned:
    """A plan and what it was made from."""

    plan: ReleasePlan
    registry: Registry
    access: HubAccess
    prime: Prime | None
    hub: HubState | None
    there: frozenset[str]
    """Environments that the Hub has as they are declared, including those that only a run needs."""


@dataclass(frozen=True)
class _Choice:
    names: tuple[str, ...]
    change: Change | None
    whole: bool
    """Whether the whole registry is planned, with all that belongs to it."""


def make_plan(root: Path, names: Sequence[str], changed: str | None, stop: threading.Event) -> Planned:
    """Plan for the named environments, for those that differ from the base `changed`, or for all.

    Without a key the Hub is not read, and the plan states this. Raises `DeclarationError`,
    `HubUnavailable` and `Interrupted`.
    """
    root = root.resolve()
    registry = load_registry(root)
    choice = _chosen(root, registry, names, changed)
    concerned = _concerned_runs(registry, choice)
    beside = sorted(set().union(*concerned.values()) & set(registry.environments) - set(choice.names))
    read = (*choice.names, *beside)
    desired = [_desired(root, registry.environments[name]) for name in read]
    access, prime = hub_access(), find_prime()
    hub, not_asked = _asked(access, prime, registry, desired, choice, stop)
    known = tuple(step_of(each, hub.readings.get(each.address) if hub else None) for each in desired)
    steps = tuple(step for step in known if step.desired.name not in beside)
    findings, further_notes = _version_findings(root, choice, steps)
    there = frozenset(step.desired.name for step in known if step.action == "unchanged")
    ready = there | {step.desired.name for step in steps if step.action in WRITES}
    situation = Situation(root, registry, access, prime if hub else None, ready, stop)
    runs = planned_runs(situation) if concerned else ()
    plan = ReleasePlan(
        steps=steps,
        runs=tuple(run for run in runs if run.name in concerned),
        findings=findings,
        external=tuple(external_step(each, hub) for each in registry.external.values()) if choice.whole else (),
        orphans=orphans(hub, _declared(registry)) if hub and choice.whole else (),
        whose=hub.identity.slug if hub else "",
        not_asked=not_asked,
        prime=hub.prime if hub else "",
        notes=(*_notes(choice, hub, registry), *further_notes),
    )
    return Planned(plan, registry, access, prime, hub, there)


def _concerned_runs(registry: Registry, choice: _Choice) -> dict[str, set[str]]:
    """Runs that use something of what was chosen, each with all environments that it uses."""
    used = {
        name: {source.id for source in (*spec.environments, *spec.evaluated)} for name, spec in registry.specs.items()
    }
    return {name: ids for name, ids in used.items() if choice.whole or ids & set(choice.names)}


def desired_of(entry: EnvironmentEntry, content: Package | ReleaseContent) -> Desired:
    """What the Hub should have of one environment."""
    return Desired(entry.name, entry.owner, content.version, content.hub_hash, entry.visibility)


def _desired(root: Path, entry: EnvironmentEntry) -> Desired:
    """What the Hub should have of an environment of the working tree. Raises `DeclarationError` with every problem."""
    content = release_content(root / ENVIRONMENTS_FOLDER / entry.folder_name, root)
    return desired_of(entry, content or Repository.load(root, [entry.name]).packages[entry.name])


def _chosen(root: Path, registry: Registry, names: Sequence[str], changed: str | None) -> _Choice:
    wanted = Repository(root, registry, {}).select(names)
    if changed is None:
        return _Choice(wanted, None, whole=not names)
    change = changed_environments(root, changed or None)
    if change.everything:
        return _Choice(wanted, change, whole=not names)
    return _Choice(tuple(name for name in wanted if name in change.names), change, whole=False)


def _asked(
    access: HubAccess,
    prime: Prime | None,
    registry: Registry,
    desired: Sequence[Desired],
    choice: _Choice,
    stop: threading.Event,
) -> tuple[HubState | None, str]:
    """The Hub's state, or why it was not read."""
    if not desired and not choice.whole:
        return None, "nothing was chosen"
    if not access.key:
        return None, "no API key (set PRIME_API_KEY, or run: prime login)"
    if prime is None:
        raise HubUnavailable("the prime CLI is not installed", INSTALL)
    external = registry.external.values() if choice.whole else ()
    owners = sorted({registry.owner, *(each.owner for each in desired)}) if choice.whole else ()
    addresses = [each.address for each in desired]
    pinned = [address_of(each) for each in external]
    return read_hub(prime, access, addresses, stop, pinned=pinned, owners=owners), ""


def _version_findings(
    root: Path, choice: _Choice, steps: Sequence[ReleaseStep]
) -> tuple[dict[str, tuple[Finding, ...]], list[str]]:
    """The findings of the rules of versions, and notes on what they could not compare."""
    try:
        change = choice.change or changed_environments(root)
    except DeclarationError as error:
        return {}, [f"versions were not compared with an earlier commit: {error.problems[0].message}"]
    names = [name for name in choice.names if name in change.names]
    if not names or change.base is None:
        return {}, []
    repository = Repository.load(root, names)
    published = {step.desired.name: step.found.version for step in steps if step.found}
    found: dict[str, tuple[Finding, ...]] = {}
    notes = []
    for name, package in repository.packages.items():
        entry = repository.registry.environments[name]
        try:
            history = release_history(root, entry, package, change.base, change.renamed.get(name))
        except ContentMissing as error:
            notes.append(f"the version of {name} was not checked: {error}")
            continue
        history = replace(history, published=published.get(name) or None)
        subject = Subject(entry, package, Facts(name, "", package.digest), history=history)
        if judged := (*findings(subject, ("release",)), *publishing_findings(subject)):
            found[name] = judged
        if not history.whole:
            notes.append(f"the clone is shallow: versions of {name} before its oldest commit were not checked")
    return found, notes


def _declared(registry: Registry) -> Iterator[str]:
    for entry in registry.environments.values():
        yield f"{entry.owner}/{entry.name}"
    for external in registry.external.values():
        yield f"{external.hub_owner}/{external.hub_name}"


def _notes(choice: _Choice, hub: HubState | None, registry: Registry) -> Iterator[str]:
    change = choice.change
    if change is not None:
        yield change.reason
        for name in sorted(change.removed):
            yield f"{name} was removed here; {registry.owner}/{name} stays on the Hub until you delete it there"
    if hub is not None and not hub.identity.may_write:
        yield "the key may read environments but not write them: the Hub would refuse a release"
    for owner, why in (hub.unlisted if hub else {}).items():
        yield f"the environments of {owner} could not be listed: {why}"
