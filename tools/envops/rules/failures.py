"""Whether a failure is the environment's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envops.facts.observed import Failure, FailureKind
    from envops.facts.stages import StageName
    from envops.rules.engine import Subject

OWN_DOING: tuple[FailureKind, ...] = ("raised", "missing-secret", "network")
OUTSIDE_FAULT: tuple[FailureKind, ...] = ("provider", "harness", "infrastructure")
"""Failures of a rollout outside the environment."""
ENDLESS = "EndlessConversation"
"""Type of the worker's failure for a conversation with too many replies."""
NO_REFERENCE: FailureKind = "no-reference"
"""The failure of a rollout whose policy had no reference reply."""
UNATTRIBUTED: tuple[FailureKind, ...] = ("protocol", *OUTSIDE_FAULT)

OFFLINE_FIX = (
    "The gates are offline, and something that rollouts need is not. Validate with `--allow-network`, or let an "
    "argument replace it by something that the package ships."
)
_UNREACHABLE = re.compile(
    r"cannot connect to host|getaddrinfo|name resolution|name or service not known", re.IGNORECASE
)


def is_offline(failure: Failure | None) -> bool:
    """Whether a rollout was lost because a host on the network could not be reached."""
    return is_outside_the_environment(failure) and failure is not None and bool(_UNREACHABLE.search(failure.message))


def own_failure(subject: Subject, stage: StageName, *kinds: FailureKind) -> Failure | None:
    """The failure of a stage, if it is the environment's own doing and, if given, of one of the kinds."""
    failure = subject.facts.failures.get(stage)
    return failure if failure is not None and failure.kind in (kinds or OWN_DOING) else None


def needs_the_network(failure: Failure | None) -> bool:
    """Whether a failure is due only to the gates being offline, which proves nothing."""
    return failure is not None and failure.kind == "network"


def is_endless(failure: Failure | None) -> bool:
    """Whether a conversation was stopped because it would not end, which RWD094 reports."""
    return failure is not None and failure.type == ENDLESS


def is_outside_the_environment(failure: Failure | None) -> bool:
    """Whether a conversation failed for reasons outside the environment, which proves nothing about it."""
    return failure is not None and failure.kind in UNATTRIBUTED
