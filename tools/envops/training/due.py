"""What is to become of each declared run: from what is declared, what is published and what the platform has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envops.hub.runs import PlatformRun
    from envops.repository.run import RunSpec

Action = Literal["submit", "submitted", "manual", "waits", "refused", "unreadable", "not-asked"]


class Identity(Protocol):
    """How a run is found among those of the platform."""

    def is_this(self, name: str) -> bool:
        """Whether it is this version of the run."""

    def is_another_version(self, name: str) -> bool:
        """Whether it is the run as it was at another time."""


@dataclass(frozen=True)
class Standing:
    """What is known of one run when its fate is decided."""

    spec: RunSpec
    identity: Identity
    hosted: bool
    retired: str
    failing: tuple[str, ...]
    """Rules that count and found something."""
    missing: tuple[str, ...]
    """Environments that are not on the Hub as they are declared."""
    platform: Sequence[PlatformRun] | None
    """`None` where nobody asked."""
    unreadable: str = ""
    """Why the platform could not be read."""
    named: bool = False
    """Whether somebody asked for this very run."""
    command: str = ""


@dataclass(frozen=True)
class Fate:
    """What is to be done about one run, and why."""

    action: Action
    reason: str
    next: str = ""
    found: PlatformRun | None = None


def fate_of(run: Standing) -> Fate:
    """The one thing to do about a run; nothing is submitted on a failed read."""
    if run.retired:
        return Fate("manual", f"retired: {run.retired}", "use backend: prime")
    if run.failing:
        return Fate("refused", f"its rules fail: {', '.join(run.failing)}", "nox -s train -- compile")
    if not run.hosted:
        return Fate("manual", "it runs on a machine of one's own", run.command)
    if run.platform is None:
        return Fate("unreadable" if run.unreadable else "not-asked", run.unreadable or "the platform was not asked")
    same = [each for each in run.platform if run.identity.is_this(each.name)]
    if same:
        return _there(same)
    if run.spec.submit == "manual" and not run.named:
        return Fate("manual", "submit: manual", f"nox -s train -- {run.spec.name}")
    if run.missing:
        names = ", ".join(run.missing)
        return Fate("waits", f"not on the Hub as declared here: {names}", "nox -s release")
    others = [each for each in run.platform if run.identity.is_another_version(each.name)]
    changed = f"changed since {others[0].name} ({others[0].status}); " if others else ""
    return Fate("submit", f"{changed}{bounds(run.spec)}")


def bounds(spec: RunSpec) -> str:
    """GPUs, hours and dollars, as far as the declaration knows them."""
    parts = [f"{spec.gpus.total} GPUs"]
    hours = spec.budget.hours * spec.gpus.total if spec.budget.hours is not None else None
    if hours is not None:
        parts.append(f"about {hours:g} GPU hours")
        if spec.budget.gpu_hour_price is not None:
            parts.append(f"about ${hours * spec.budget.gpu_hour_price:,.2f}")
    if spec.budget.max_gpu_hours is not None:
        parts.append(f"budget {spec.budget.max_gpu_hours:g} GPU hours")
    if spec.budget.max_dollars is not None:
        parts.append(f"budget ${spec.budget.max_dollars:,.2f}")
    return ", ".join(parts)


def _there(same: Sequence[PlatformRun]) -> Fate:
    latest = same[0]
    twice = f", and {len(same) - 1} more under this name" if len(same) > 1 else ""
    then = ""
    if latest.status.upper() in ("FAILED", "STOPPED"):
        then = f"prime train restart {latest.id}, or change the run: another declaration is another run"
    return Fate("submitted", f"{latest.name} is {latest.status.lower()} ({latest.id}){twice}", then, latest)
