"""The state after an interruption, and the continued evaluation."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest
from envwright.facts.observed import Failure, Rollout
from envwright.observing.journal import Journal
from envwright.observing.stages.rollouts import Evaluator, RolloutProgress, ScriptedEvaluation
from envwright.system.subprocesses import Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ASKED = ScriptedEvaluation("distribution", "blend", tasks=2, rollouts=3, max_concurrent=4, seconds=1.0)
ALL = [("blend", task, number) for task in range(2) for number in range(3)]


def rollout(task: int, number: int, policy: str = "blend", **changes: Any) -> Rollout:
    return replace(Rollout(task, policy, number, (), 1.0, {}), **changes)


class Worker:
    """Makes the rollouts that were not made yet, and is interrupted after some."""

    def __init__(self, before_interruption: int = 99) -> None:
        self._left = before_interruption
        self.made: list[tuple[str, int, int]] = []

    def request(self, operation: str, within: float, **asked: Any) -> Iterator[tuple[str, Any]]:  # noqa: ARG002
        for policy, task, number in ALL:
            if (policy, task, number) in asked["made"]:
                continue
            if not self._left:
                raise Interrupted
            self._left -= 1
            self.made.append((policy, task, number))
            yield "rollout", asdict(rollout(task, number))


def evaluated(worker: Worker, journal: Journal, **more: Any) -> list[tuple[str, int, int]]:
    job: Any = worker
    parts = Evaluator(lambda: nullcontext(job), journal, lambda _: None, **more).rollouts(ASKED)
    return [(value["policy"], value["task"], value["rollout"]) for _, value in parts]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rollouts" / "key.jsonl"


def test_interrupted_evaluation_resumes(path: Path):
    with pytest.raises(Interrupted):
        evaluated(Worker(before_interruption=4), Journal(path))
    again = Worker()
    assert sorted(evaluated(again, Journal(path))) == ALL
    assert again.made == ALL[4:]


def test_incomplete_group_is_dropped_if_rewards_compare(path: Path):
    with pytest.raises(Interrupted):
        evaluated(Worker(before_interruption=4), Journal(path), whole_groups=True)
    again = Worker()
    assert sorted(evaluated(again, Journal(path), whole_groups=True)) == ALL
    assert again.made == ALL[3:]


def test_torn_line_drops_only_its_own_rollout(path: Path):
    journal = Journal(path)
    journal.append(rollout(0, 0))
    path.write_bytes(path.read_bytes() + b'{"task":0,"policy":"bl')
    journal.append(rollout(0, 1))
    kept = Journal(path).kept("blend", 2, 3, whole_groups=False)
    assert [(each.task, each.rollout) for each in kept] == [(0, 0), (0, 1)]


@pytest.mark.parametrize("kind", ["provider", "infrastructure", "crash"])
def test_journal_drops_failures_that_may_pass_on_retry(path: Path, kind: Any):
    journal = Journal(path)
    journal.append(rollout(0, 0, reward=None, failure=Failure(kind, "Error", "")))
    journal.append(rollout(0, 1, reward=None, failure=Failure("raised", "Error", "")))
    assert [each.rollout for each in journal.kept("blend", 2, 3, whole_groups=False)] == [1]


def test_journal_excludes_foreign_and_surplus_rollouts(path: Path):
    journal = Journal(path)
    for one in (rollout(0, 0, "oracle"), rollout(0, 3), rollout(0, 2), rollout(0, 2)):
        journal.append(one)
    assert [each.rollout for each in journal.kept("blend", 2, 3, whole_groups=False)] == [2]


def test_progress_line_shows_count_mean_errors_speed_and_rest():
    now = 0.0
    progress = RolloutProgress(8, clock=lambda: now)
    progress.count(rollout(0, 0), kept=True)
    for reward in (1.0, 0.0):
        progress.count(rollout(0, 1, reward=reward))
    progress.count(rollout(0, 2, reward=None, failure=Failure("provider", "Error", "")))
    now = 1.5
    assert str(progress) == "4/8, mean 0.667, 1 error, 2.0/s, 2 s left"
