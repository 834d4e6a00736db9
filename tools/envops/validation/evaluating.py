"""One evaluation by scripted policies, kept on disk as it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

from envops.facts.observed import Rollout, Stage
from envops.validation.job import Job, StageFailed, WorkerLost, checked
from envops.validation.journal import PASSING_FAULTS, Journal
from envops.validation.progress_line import Pace


@dataclass(frozen=True)
class ScriptedEvaluation:
    """What is asked of jobs."""

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


NewJob = Callable[[], AbstractContextManager[Job]]
TRIED_FIRST = 2
"""On so many tasks, rollouts that failed are tried again at first; on the others where that helped."""


@dataclass(frozen=True)
class Evaluator:
    """Plays the rollouts of scripted evaluations in jobs."""

    new_job: NewJob
    """A job that is ready to play."""
    journal: Journal
    tell: Callable[[str], None]
    """How an evaluation is getting on, in words."""
    whole_groups: bool = False
    """Whether rewards compare the rollouts of a task, so that a part of them is worth nothing."""

    def rollouts(self, asked: ScriptedEvaluation) -> Iterator[tuple[str, Any]]:
        """What jobs send, and before it the rollouts that an earlier run made.

        What fails is tried again in another job before it is remembered: a busy machine makes connections fail.
        Raises `StageFailed` where jobs are lost twice.
        """
        kept = self.journal.kept(asked.policy, asked.tasks, asked.rollouts, whole_groups=self.whole_groups)
        pace = Pace(asked.tasks * asked.rollouts)
        made: dict[tuple[int, int], Rollout] = {}
        for rollout in kept:
            pace.count(rollout, kept=True)
            made[rollout.task, rollout.rollout] = rollout
            yield "rollout", asdict(rollout)
        failed: dict[int, list[dict[str, Any]]] = {}
        for kind, value in self._played_to_the_end(asked, made):
            if kind != "rollout":
                yield kind, value
                continue
            rollout = checked(Rollout, value)
            if rollout.failure is not None or rollout.failures:
                failed.setdefault(rollout.task, []).append(value)
            else:
                made[rollout.task, rollout.rollout] = rollout
                self.journal.append(rollout)
                pace.count(rollout)
                self.tell(str(pace))
                yield kind, value
        for kind, value in self._tried_again(asked, failed):
            if kind == "rollout":
                rollout = checked(Rollout, value)
                self.journal.append(rollout)
                pace.count(rollout)
                self.tell(str(pace))
            yield kind, value

    def _played_to_the_end(
        self, asked: ScriptedEvaluation, made: Mapping[tuple[int, int], Rollout]
    ) -> Iterator[tuple[str, Any]]:
        """Rollouts on all tasks; where their job is lost, another one goes on."""
        sent: set[tuple[int, int]] = set()
        try:
            with self.new_job() as job:
                for kind, value in self._asked(job, asked, sorted(made)):
                    if kind == "rollout":
                        sent.add((value["task"], value["rollout"]))
                    yield kind, value
        except WorkerLost as error:
            if error.failure.kind not in PASSING_FAULTS:
                raise
            with self.new_job() as job:
                yield from self._asked(job, asked, sorted({*made, *sent}))

    def _tried_again(
        self,
        asked: ScriptedEvaluation,
        failed: Mapping[int, Sequence[dict[str, Any]]],
    ) -> Iterator[tuple[str, Any]]:
        """The rollouts that failed, as they came the second time; as they were where that does not help."""
        tasks = sorted(failed)
        left = dict(failed)
        for batch in (tasks[:TRIED_FIRST], tasks[TRIED_FIRST:]):
            if not batch:
                break
            wanted = {(row["task"], row["rollout"]) for task in batch for row in failed[task]}
            others = [
                (task, number) for task in batch for number in range(asked.rollouts) if (task, number) not in wanted
            ]
            try:
                with self.new_job() as job:
                    parts = list(self._asked(job, asked, [] if self.whole_groups else others, batch))
            except StageFailed:
                break
            rows = [value for kind, value in parts if kind == "rollout" and (value["task"], value["rollout"]) in wanted]
            helped = sum(row["failure"] is None and not row["failures"] for row in rows)
            for task in batch:
                del left[task]
            yield from (("rollout", row) for row in rows)
            yield from (part for part in parts if part[0] != "rollout")
            if not helped:
                break
            self.tell(f"{helped} of {len(rows)} rollouts that had failed succeeded in another process")
        for task in tasks:
            yield from (("rollout", row) for row in left.get(task, ()))

    def _asked(
        self,
        job: Job,
        asked: ScriptedEvaluation,
        made: Sequence[tuple[int, int]],
        tasks: Sequence[int] | None = None,
    ) -> Iterator[tuple[str, Any]]:
        return job.request(
            "evaluate",
            asked.seconds + 10,
            stage=asked.stage,
            policies=[asked.policy],
            tasks=asked.tasks,
            indices=tasks,
            rollouts=asked.rollouts,
            max_concurrent=asked.max_concurrent,
            seconds=asked.seconds,
            harness=asked.harness,
            connected=asked.connected,
            made=[(asked.policy, task, number) for task, number in made],
        )
