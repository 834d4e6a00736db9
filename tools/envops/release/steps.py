"""What a release would do to each environment: from what is declared and what the Hub says, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from envops.hub.state import HubEnvironment, HubState, Reading
    from envops.repository.registry import ExternalEntry
    from envops.rules.engine import Finding, Verdict

Action = Literal[
    "create", "publish", "visibility", "unchanged", "conflict", "drift", "no-access", "unreadable", "not-asked"
]
WRITES: frozenset[Action] = frozenset({"create", "publish", "visibility"})
REFUSED: frozenset[Action] = frozenset({"conflict", "drift", "no-access"})
"""The Hub has what a release cannot replace: somebody has to decide."""


@dataclass(frozen=True)
class Desired:
    """One environment as this repository wants it on the Hub."""

    name: str
    owner: str
    version: str
    content_hash: str
    visibility: str

    @property
    def address(self) -> str:
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True)
class Step:
    """What a release would do to one environment, and why."""

    desired: Desired
    action: Action
    reason: str
    next: str = ""
    """What somebody has to do; only where a release does nothing."""
    found: HubEnvironment | None = None


@dataclass(frozen=True)
class ExternalStep:
    """Whether an environment that runs use from the Hub is there."""

    name: str
    address: str
    """`owner/name@version`."""
    standing: Literal["found", "missing", "no-access", "unreadable", "not-asked"]
    why: str = ""


def step_of(desired: Desired, reading: Reading | None) -> Step:
    """The one thing to do about one environment; nothing is decided from a failed read."""
    if reading is None:
        return Step(desired, "not-asked", "the Hub was not asked")
    if reading.standing == "unreadable":
        then = "try again; nothing is done to an environment whose present state is not known"
        return Step(desired, "unreadable", reading.why, then)
    if reading.standing == "no-access":
        then = f"use a key that may write for {desired.owner}, or name another owner in registry.yaml"
        return Step(desired, "no-access", reading.why, then)
    if reading.standing == "missing" or reading.environment is None:
        return Step(desired, "create", f"{desired.visibility} at version {desired.version}")
    return _beside(desired, reading.environment)


def _beside(desired: Desired, found: HubEnvironment) -> Step:
    if not found.version:
        return Step(
            desired, "publish", f"the Hub has the name, without a version; {desired.version} is the first", found=found
        )
    if found.content_hash == desired.content_hash:
        return _same_content(desired, found)
    order = compared(desired.version, found.version)
    if order is None:
        then = f"delete that version by hand, or choose one above it (nox -s bump -- {desired.name})"
        return Step(
            desired, "drift", f"the Hub's version {found.version!r} is not one that can be compared", then, found
        )
    if order > 0:
        return Step(
            desired, "publish", f"{found.version} → {desired.version}{_also_visibility(desired, found)}", found=found
        )
    if order == 0:
        reason = f"version {desired.version} is taken by other content ({found.content_hash[:12] or 'without a hash'})"
        then = f"nox -s bump -- {desired.name}; what is published under a version is never replaced"
        return Step(desired, "conflict", reason, then, found)
    reason = f"the Hub has {found.version}, which is ahead of {desired.version} here"
    then = (
        f"bring here what was published by hand, or go past it: nox -s bump -- {desired.name} --above {found.version}"
    )
    return Step(desired, "drift", reason, then, found)


def _same_content(desired: Desired, found: HubEnvironment) -> Step:
    if compared(found.version, desired.version) != 0:
        reason = f"the Hub has this content as version {found.version}, and it says {desired.version} here"
        return Step(desired, "drift", reason, f"nox -s bump -- {desired.name}", found)
    if found.visibility and found.visibility != desired.visibility:
        return Step(desired, "visibility", f"{found.visibility} → {desired.visibility}", found=found)
    return Step(desired, "unchanged", f"{found.version} is there", found=found)


def _also_visibility(desired: Desired, found: HubEnvironment) -> str:
    changes = bool(found.visibility) and found.visibility != desired.visibility
    return f", {found.visibility} → {desired.visibility}" if changes else ""


def compared(one: str, other: str) -> int | None:
    """Below, equal to or above zero as versions compare; `None` where one of them is no version."""
    try:
        first, second = Version(one), Version(other)
    except InvalidVersion:
        return 0 if one == other else None
    return (first > second) - (first < second)


def external_step(entry: ExternalEntry, hub: HubState | None) -> ExternalStep:
    """Whether what the registry takes from the Hub is there."""
    address = address_of(entry)
    reading = hub.pinned.get(address) if hub else None
    if reading is None:
        return ExternalStep(entry.name, address, "not-asked")
    if reading.standing == "found" and reading.environment and reading.environment.version not in ("", entry.version):
        why = f"the Hub answers with version {reading.environment.version}"
        return ExternalStep(entry.name, address, "missing", why)
    return ExternalStep(entry.name, address, reading.standing, reading.why)


def address_of(entry: ExternalEntry) -> str:
    """`owner/name@version` of an environment that is on the Hub already."""
    return f"{entry.hub_owner}/{entry.hub_name}@{entry.version}"


def orphans(hub: HubState, declared: Iterable[str]) -> tuple[str, ...]:
    """What is on the Hub under an owner of ours and in no registry entry; reported, never deleted."""
    known = {address.casefold() for address in declared}
    listed = {address for names in hub.listed.values() for address in names}
    return tuple(sorted(address for address in listed if address.casefold() not in known))


@dataclass(frozen=True)
class PlannedRun:
    """What a release would do about one training run after its environments are published."""

    name: str
    backend: str
    action: Literal["submit", "submitted", "manual", "waits", "refused", "unreadable", "not-asked"]
    reason: str
    next: str = ""


@dataclass(frozen=True)
class Plan:
    """Everything that a release would do."""

    steps: tuple[Step, ...] = ()
    external: tuple[ExternalStep, ...] = ()
    orphans: tuple[str, ...] = ()
    runs: tuple[PlannedRun, ...] = ()
    findings: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    """Environment → what the rules of releases found."""
    whose: str = ""
    """The user whose key asked; empty where the Hub was not asked."""
    not_asked: str = ""
    """Why the Hub was not asked; empty where it was."""
    prime: str = ""
    notes: tuple[str, ...] = ()
    """What a reader should know besides: what was chosen, what could not be listed."""

    @property
    def writes(self) -> tuple[Step, ...]:
        """The steps that change something on the Hub."""
        return tuple(step for step in self.steps if step.action in WRITES)

    @property
    def refused(self) -> tuple[Step, ...]:
        """The steps that need somebody's decision first."""
        return tuple(step for step in self.steps if step.action in REFUSED)

    @property
    def unreadable(self) -> tuple[Step, ...]:
        """The steps that could not be decided, because the Hub could not be read."""
        return tuple(step for step in self.steps if step.action == "unreadable")

    def blocked(self, name: str) -> tuple[Finding, ...]:
        """The findings because of which an environment is not released."""
        return tuple(finding for finding in self.findings.get(name, ()) if finding.counts)

    @property
    def verdict(self) -> Verdict:
        """Fail where somebody has to decide something, error where the Hub could not be read, else pass."""
        if self.refused or any(self.blocked(name) for name in self.findings):
            return "fail"
        if any(each.standing in ("missing", "no-access") for each in self.external):
            return "fail"
        if any(run.action == "refused" for run in self.runs):
            return "fail"
        unread = self.unreadable or any(each.standing == "unreadable" for each in self.external)
        return "error" if unread or any(run.action == "unreadable" for run in self.runs) else "pass"
