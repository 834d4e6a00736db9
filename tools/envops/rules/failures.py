"""Whose failure it is: the environment's own, or nobody's here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envops.facts.observed import Failure, FailureKind
    from envops.facts.stages import StageName
    from envops.rules.engine import Subject

OWN_DOING: tuple[FailureKind, ...] = ("raised", "missing-secret", "network")
OUTSIDE_FAULT: tuple[FailureKind, ...] = ("provider", "harness", "infrastructure")
"""What breaks a rollout around the environment."""
NOBODYS_FAULT: tuple[FailureKind, ...] = ("protocol", *OUTSIDE_FAULT)


def own_failure(subject: Subject, stage: StageName, *kinds: FailureKind) -> Failure | None:
    """The failure of a stage, if it is the environment's own doing and, where given, of one of the kinds."""
    failure = subject.facts.failures.get(stage)
    return failure if failure is not None and failure.kind in (kinds or OWN_DOING) else None


def is_nobodys_fault(failure: Failure | None) -> bool:
    """Whether one conversation broke for reasons outside of the environment: nothing is known of it then."""
    return failure is not None and failure.kind in NOBODYS_FAULT
