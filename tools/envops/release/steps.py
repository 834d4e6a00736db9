"""The steps of a release, decided from the declaration and the state of the Hub alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from envops.hub.state import HubEnvironment, HubReading, HubState
    from envops.repository.registry import ExternalEntry
    from envops.rules.engine import Finding, Verdict

ReleaseAction = Literal[
    "create", "publish", "visibility", "unchanged", "conflict", "drift", "no-access", "unreadable", "not-asked"
]
WRITES: frozenset[ReleaseAction] = frozenset({"create", "publish", "visibility"})
REFUSED: frozenset[ReleaseAction] = frozenset({"conflict", "drift", "no-access"})
"""The Hub has something that a release cannot replace: a person has to decide."""


@dataclass(frozen=True)
class Desired:
    """The desired state of one environment on the Hub."""

    name: str
    owner: str
    version: str
    content_hash: str
    visibility: str

    @property
    def address(self) -> str:
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True)
class ReleaseStep:
    """The planned action for one environment, with its reason."""

    desired: Desired
    action: ReleaseAction
    reason: str
    next: str = ""
    """What the user has to do; empty where the release does something."""
    found: HubEnvironment | None = None


@dataclass(frozen=True)
class ExternalStep:
    """Whether an external environment of a run is on the Hub."""

    name: str
    address: str
    """`owner/name@version`."""
    standing: Literal["found", "missing", "no-access", "unreadable", "not-asked"]
    why: str = ""


def step_of(desired: Desired, reading: HubReading | None) -> ReleaseStep:
    """The step for one environment; a failed read decides nothing."""
    if reading is None:
        return ReleaseStep(desired, "not-asked", "the Hub was not read")
    if reading.standing == "unreadable":
        then = "try again; an environment whose state is unknown is not changed"
        return ReleaseStep(desired, "unreadable", reading.why, then)
    if reading.standing == "no-access":
        then = f"use a key that can write for {desired.owner}, or name another owner in registry.yaml"
        return ReleaseStep(desired, "no-access", reading.why, then)
    if reading.standing == "missing" or reading.environment is None:
        return ReleaseStep(desired, "create", f"{desired.visibility} at version {desired.version}")
    return _beside(desired, reading.environment)


def _beside(desired: Desired, found: HubEnvironment) -> ReleaseStep:
    if not found.version:
        return ReleaseStep(
            desired, "publish", f"the Hub has the name without a version; {desired.version} is the first", found=found
        )
    if found.content_hash == desired.content_hash:
        return _same_content(desired, found)
    order = compared(desired.version, found.version)
    if order is None:
        then = f"delete that version manually, or choose one above it (nox -s bump -- {desired.name})"
        return ReleaseStep(desired, "drift", f"the Hub's version {found.version!r} is not a valid version", then, found)
    if order > 0:
        return ReleaseStep(
            desired, "publish", f"{found.version} → {desired.version}{_also_visibility(desired, found)}", found=found
        )
    if order == 0:
        published = found.content_hash[:12] or "without a hash"
        reason = f"version {desired.version} is already published with other content ({published})"
        then = f"nox -s bump -- {desired.name}; a published version is never replaced"
        return ReleaseStep(desired, "conflict", reason, then, found)
    reason = f"the Hub has {found.version}, which is ahead of {desired.version} here"
    bump = f"nox -s bump -- {desired.name} --above {found.version}"
    then = f"copy the published code here, or choose a higher version: {bump}"
    return ReleaseStep(desired, "drift", reason, then, found)


def _same_content(desired: Desired, found: HubEnvironment) -> ReleaseStep:
    if compared(found.version, desired.version) != 0:
        reason = f"the Hub has this content as version {found.version}, and the version here is {desired.version}"
        return ReleaseStep(desired, "drift", reason, f"nox -s bump -- {desired.name}", found)
    if found.visibility and found.visibility != desired.visibility:
        return ReleaseStep(desired, "visibility", f"{found.visibility} → {desired.visibility}", found=found)
    return ReleaseStep(desired, "unchanged", f"{found.version} is published", found=found)


def _also_visibility(desired: Desired, found: HubEnvironment) -> str:
    changes = bool(found.visibility) and found.visibility != desired.visibility
    return f", {found.visibility} → {desired.visibility}" if changes else ""


def compared(one: str, other: str) -> int | None:
    """Below, equal to or above zero as versions compare; `None` where one of them is not a version."""
    try:
        first, second = Version(one), Version(other)
    except InvalidVersion:
        return 0 if one == other else None
    return (first > second) - (first < second)


def external_step(entry: ExternalEntry, hub: HubState | None) -> ExternalStep:
    """Whether an external environment of the registry is on the Hub."""
    address = address_of(entry)
    reading = hub.pinned.get(address) if hub else None
    if reading is None:
        return ExternalStep(entry.name, address, "not-asked")
    if reading.standing == "found" and reading.environment and reading.environment.version not in ("", entry.version):
        why = f"the Hub returned version {reading.environment.version}"
        return ExternalStep(entry.name, address, "missing", why)
    return ExternalStep(entry.name, address, reading.standing, reading.why)


def address_of(entry: ExternalEntry) -> str:
    """`owner/name@version` of an environment that is on the Hub already."""
    return f"{entry.hub_owner}/{entry.hub_name}@{entry.version}"


def orphans(hub: HubState, declared: Iterable[str]) -> tuple[str, ...]:
    """Environments of our owners on the Hub without a registry entry; reported, never deleted."""
    known = {address.casefold() for address in declared}
    listed = {address for names in hub.listed.values() for address in names}
    return tuple(sorted(address for address in listed if address.casefold() not in known))


@dataclass(frozen=True)
class PlannedRun:
    """The planned action for a training run after its environments are published."""

    name: str
    backend: str
    action: Literal["submit", "submitted", "manual", "waits", "refused", "unreadable", "not-asked"]
    reason: str
    next: str = ""


@dataclass(frozen=True)
class ReleasePlan:
    """The actions of a release."""

    steps: tuple[ReleaseStep, ...] = ()
    external: tuple[ExternalStep, ...] = ()
    orphans: tuple[str, ...] = ()
    runs: tuple[PlannedRun, ...] = ()
    findings: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    """Environment → findings of the rules of releases."""
    whose: str = ""
    """The user of the key; empty where the Hub was not read."""
    not_asked: str = ""
    """Why the Hub was not read; empty where it was."""
    prime: str = ""
    notes: tuple[str, ...] = ()
    """Further notes: what was chosen, what could not be listed."""

    @property
    def writes(self) -> tuple[ReleaseStep, ...]:
        """The steps that change something on the Hub."""
        return tuple(step for step in self.steps if step.action in WRITES)

    @property
    def refused(self) -> tuple[ReleaseStep, ...]:
        """The steps that need a decision first."""
        return tuple(step for step in self.steps if step.action in REFUSED)

    @property
    def unreadable(self) -> tuple[ReleaseStep, ...]:
        """The steps that are undecided because the Hub could not be read."""
        return tuple(step for step in self.steps if step.action == "unreadable")

    def blocked(self, name: str) -> tuple[Finding, ...]:
        """The findings that block the release of an environment."""
        return tuple(finding for finding in self.findings.get(name, ()) if finding.counts)

    @property
    def verdict(self) -> Verdict:
        """Fail where a decision is needed, error where the Hub could not be read, else pass."""
        if self.refused or any(self.blocked(name) for name in self.findings):
            return "fail"
        if any(each.standing in ("missing", "no-access") for each in self.external):
            return "fail"
        if any(run.action == "refused" for run in self.runs):
            return "fail"
        unread = self.unreadable or any(each.standing == "unreadable" for each in self.external)
        return "error" if unread or any(run.action == "unreadable" for run in self.runs) else "pass"
