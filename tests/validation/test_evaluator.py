"""Rollouts are played by jobs that have scored nothing, and what fails is tried again in another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.observed import Failure
from envwright.observing.facts_cache import remembered
from envwright.observing.job import WorkerLost
from envwright.observing.journal import Journal
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.stages.rollouts import Evaluator, ScriptedEvaluation
from sample_packages import SMALL, look_at, write_package

if TYPE_CHECKING:
    from pathlib import Path

    from envwright.facts.observed import Facts
    from envwright.system.workspace import Workspace

pytestmark = pytest.mark.usefixtures("shared_templates")
MODULE = """
import os, threading, time
from pathlib import Path

import verifiers as vf
from datasets import Dataset

LOADED_IN = os.getpid()
{more}

def right(completion, answer, **_):
    return float(answer in completion[-1]["content"])


def scored_by(completion, **_):
    return float(os.getpid())


def where_it_was_loaded(completion, **_):
    return float(os.getpid() == LOADED_IN)


def load_environment(**_):
    rows = [{{"question": f"Say twice {{number}}.", "answer": str(2 * number)}} for number in range(100, 112)]
    rubric = vf.Rubric(funcs=[right, scored_by, where_it_was_loaded], weights=[1.0, 0.0, 0.0])
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric)
"""
THREAD = "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
SHAKY = """

class Shaky(vf.SingleTurnEnv):
    async def setup_state(self, state, **kwargs):
        first = Path(os.environ["HOME"], "first")
        if not first.exists():
            first.write_text(str(os.getpid()))
        if {fails}:
            raise ValueError("this process plays nothing")
        return await super().setup_state(state, **kwargs)


vf.SingleTurnEnv = Shaky
"""


@pytest.mark.slow
@pytest.mark.worker
@pytest.mark.parametrize(
    ("name", "more", "origin"), [("forking", "", "environment"), ("threading_env", THREAD, "lock")]
)
def test_rollouts_run_in_jobs_without_earlier_scoring(
    name: str, more: str, origin: str, environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch
) -> None:
    package = write_package(environments / name, "v0", {"module.py": MODULE.format(more=more)})
    facts = look_at(package, workspace, patch).facts
    assert facts.failures == {}
    assert facts.started.origin == origin
    assert facts.started.reason.startswith("" if not more else "it cannot be forked after loading: threads")
    by_job, played_by = (
        {one.functions["scored_by"].score for one in rows if one.policy == "oracle"}
        for rows in (facts.scores, facts.rollouts)
    )
    assert len(by_job) == 1
    assert played_by
    assert not by_job & played_by
    loaded_there = {one.functions["where_it_was_loaded"].score for one in facts.rollouts}
    assert loaded_there == {1.0 if more else 0.0}
    assert [one.failure for one in facts.rollouts if one.failure] == []
    assert {one.reward for one in facts.rollouts if one.policy == "oracle"} == {1.0}


def evaluated(name: str, fails: str, environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch) -> Facts:
    """The cached facts of an environment with failing rollouts."""
    more = SHAKY.format(fails=fails)
    package = write_package(environments / name, "v0", {"module.py": MODULE.format(more=more)})
    facts = look_at(package, workspace, patch, request=ObservationRequest(score=False, use_cache=False)).facts
    kept = remembered(EnvironmentEntry(package.name, gates=SMALL), package, workspace, ObservationRequest(score=False))
    assert kept is not None
    assert kept.rollouts == facts.rollouts
    assert len({(one.policy, one.task, one.rollout) for one in kept.rollouts}) == len(kept.rollouts) > 2
    return kept


@pytest.mark.slow
@pytest.mark.worker
def test_rollouts_that_fail_in_one_process_only_count_as_successes(
    environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch
) -> None:
    facts = evaluated("shaky", "first.read_text() == str(os.getpid())", environments, workspace, patch)
    assert [one.failure for one in facts.rollouts if one.failure] == []


@pytest.mark.slow
@pytest.mark.worker
def test_rollouts_that_fail_in_every_process_are_failures(
    environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch
) -> None:
    facts = evaluated("broken", "True", environments, workspace, patch)
    assert {one.failure.message for one in facts.rollouts if one.failure} == {"this process plays nothing"}
    assert [one for one in facts.rollouts if not one.failure] == []


ASKED = ScriptedEvaluation("smoke", "oracle", tasks=4, rollouts=2, max_concurrent=1, seconds=1.0)
CRASH = Failure("crash", "WorkerDied", "the worker ended with signal 9")
HANG = Failure("timeout", "Timeout", "no answer after 1 s")


@dataclass
class Jobs:
    """Makes jobs of which each fails at its own tasks, or is lost after so many rollouts."""

    failing: list[set[int]]
    lost: dict[int, tuple[int, Failure]] = field(default_factory=dict)
    """Number of a job → after how many rollouts it is lost, and how."""
    played: list[list[tuple[int, int]]] = field(default_factory=list)

    @contextmanager
    def new(self) -> Iterator[Any]:
        self.played.append([])
        yield self

    def request(self, operation: str, within: float, **asked: Any) -> Iterator[tuple[str, Any]]:  # noqa: ARG002
        number = len(self.played) - 1
        made = {(task, rollout) for _, task, rollout in asked["made"]}
        for task in asked["indices"] or range(asked["tasks"]):
            for rollout in range(asked["rollouts"]):
                if (task, rollout) not in made:
                    self._lose(number)
                    self.played[number].append((task, rollout))
                    yield "rollout", self._row(number, task, rollout)

    def _lose(self, number: int) -> None:
        after, failure = self.lost.get(number, (-1, CRASH))
        if len(self.played[number]) == after:
            raise WorkerLost(failure)

    def _row(self, number: int, task: int, rollout: int) -> dict[str, Any]:
        failure = {"kind": "raised", "type": "ValueError", "message": f"in job {number}"}
        failed = task in self.failing[min(number, len(self.failing) - 1)]
        row = {"task": task, "policy": "oracle", "rollout": rollout, "completion": [], "functions": {}, "failures": []}
        return row | {"reward": None if failed else 1.0, "failure": failure if failed else None}


def rollouts_of(jobs: Jobs, journal: Journal, **more: Any) -> dict[tuple[int, int], str]:
    """The failure of each rollout, or nothing; each occurs once."""
    parts = Evaluator(jobs.new, journal, lambda _: None, **more).rollouts(ASKED)
    rows = [value for kind, value in parts if kind == "rollout"]
    found = {(row["task"], row["rollout"]): (row["failure"] or {}).get("message", "") for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.jsonl")


EVERY = {(task, rollout): "" for task in range(4) for rollout in range(2)}


def test_evaluator_retries_failed_rollouts_if_it_helps(journal: Journal) -> None:
    jobs = Jobs([{0, 1, 3}, set()])
    assert rollouts_of(jobs, journal) == EVERY
    assert jobs.played[1:] == [[(0, 0), (0, 1), (1, 0), (1, 1)], [(3, 0), (3, 1)]]
    assert rollouts_of(Jobs([set()]), journal) == EVERY
    assert {one.failure for one in journal.kept("oracle", 4, 2, whole_groups=False)} == {None}


def test_evaluator_replaces_a_lost_job(journal: Journal) -> None:
    jobs = Jobs([set()], lost={0: (3, CRASH)})
    assert rollouts_of(jobs, journal) == EVERY
    assert jobs.played == [[(0, 0), (0, 1), (1, 0)], [(1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]]


def test_evaluator_stops_after_a_job_that_hangs(journal: Journal) -> None:
    jobs = Jobs([set()], lost={0: (3, HANG)})
    with pytest.raises(WorkerLost):
        rollouts_of(jobs, journal)
    assert len(jobs.played) == 1
