"""Where a plan and a release meet the training runs that are due after them.

Both functions are called with everything that is known by then; training runs are decided and
submitted in `envops.act.training`. As long as nothing there does, the section stays empty.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from envops.declare.registry import Registry
from envops.judge.releasing import PlannedRun
from envops.observe.hub.access import HubAccess
from envops.observe.hub.prime import Prime


@dataclass(frozen=True)
class Situation:
    """What runs are decided from."""

    root: Path
    registry: Registry
    access: HubAccess
    prime: Prime | None
    """`None` where the Hub is not asked; then nothing can be said of what was submitted."""
    ready: frozenset[str]
    """Environments that are, or with this release will be, on the Hub as they are declared."""
    stop: threading.Event


@dataclass(frozen=True)
class SubmittedRun:
    """What came of one run."""

    name: str
    outcome: str
    """submitted, already-submitted, waits, failed or unknown."""
    message: str
    next: str = ""
    id: str = ""


def planned_runs(situation: Situation) -> tuple[PlannedRun, ...]:
    """What would become of each declared run."""
    del situation
    return ()


def submit_runs(situation: Situation, planned: tuple[PlannedRun, ...]) -> tuple[SubmittedRun, ...]:
    """Submit those that are planned to be, each once, where all of their environments are ready."""
    del situation, planned
    return ()
