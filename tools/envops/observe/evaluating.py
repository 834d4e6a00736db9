"""One evaluation by scripted policies, kept on disk as it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from envops.observe.facts import Rollout, Stage
from envops.observe.journal import Journal
from envops.observe.pace import Pace
from envops.observe.process import WorkerProcess, checked


@dataclass(frozen=True)
class ScriptedEvaluation:
    """What is asked of the worker."""

    stage: Stage
    policy: str
    tasks: int
    rollouts: int
    max_concurrent: int
    seconds: float
    harness: str | None = None
    """Of v1, seated before; `None` is the worker's own."""
    connected: bool = True
    """Whether policies are asked over a connection, as a model would be."""


def evaluation(
    worker: WorkerProcess,
    asked: ScriptedEvaluation,
    journal: Journal,
    tell: Callable[[str], None],
    *,
    whole_groups: bool = False,
) -> Iterator[tuple[str, Any]]:
    """The parts of the worker's answer, and before them the rollouts that an earlier run made.

    `whole_groups`: rewards compare the rollouts of a task, so a part of them is worth nothing.
    """
    kept = journal.kept(asked.policy, asked.tasks, asked.rollouts, whole_groups=whole_groups)
    pace = Pace(asked.tasks * asked.rollouts)
    for rollout in kept:
        pace.count(rollout, kept=True)
        yield "rollout", asdict(rollout)
    parts = worker.request(
        "evaluate",
        asked.seconds + 10,
        stage=asked.stage,
        policies=[asked.policy],
        tasks=asked.tasks,
        rollouts=asked.rollouts,
        max_concurrent=asked.max_concurrent,
        seconds=asked.seconds,
        harness=asked.harness,
        connected=asked.connected,
        made=[(each.policy, each.task, each.rollout) for each in kept],
    )
    for kind, value in parts:
        if kind == "rollout":
            rollout = checked(Rollout, value)
            journal.append(rollout)
            pace.count(rollout)
            tell(str(pace))
        yield kind, value
