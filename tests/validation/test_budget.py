"""The budget of an observation: shares of stages, what fits, and the clock."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from envwright.facts.observed import Cut, Failure, Pace
from envwright.facts.stages import STAGES, stage_named
from envwright.observing.budget import (
    Budget,
    Deadline,
    current_deadline,
    deadline,
    fitting,
    half_of_the_time,
    seconds_left,
)
from envwright.observing.collected_facts import CollectedFacts, ProgressListener

ALL = [stage.name for stage in STAGES if stage.share]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_budget_counts_only_while_a_stage_runs(clock: Clock) -> None:
    budget = Budget(120, clock=clock)
    with budget.running(), budget.running():
        clock.now += 10
    clock.now += 500  # the turn is another environment's
    assert budget.left == 110
    with budget.running():
        clock.now += 5
        assert budget.left == 105


def test_half_of_the_time_bounds_requests_and_not_their_end() -> None:
    with deadline(Deadline.after(100, 120)):
        with half_of_the_time():
            bound = current_deadline()
            assert bound is not None
            assert 49 < seconds_left() <= 50
            assert bound.seconds_to_end > 119
        assert 99 < seconds_left() <= 100


def test_allowances_of_stages_that_wait_for_each_other_fit_into_the_budget(clock: Clock) -> None:
    budget, unfinished = Budget(120, clock=clock), set(ALL)
    for name in ("pace", "rewards", "validation", "invariants"):
        with budget.running():
            clock.now += budget.allowance(stage_named(name), unfinished)[1]
        unfinished.remove(name)
    assert budget.left >= 0


def test_allowance_grows_when_other_stages_are_over(clock: Clock) -> None:
    budget = Budget(120, clock=clock)
    _, beside_all = budget.allowance(stage_named("mutation"), ALL)
    _, alone = budget.allowance(stage_named("mutation"), ["mutation"])
    assert beside_all < alone == 120


def test_allowance_leaves_time_to_stop(clock: Clock) -> None:
    assert Budget(120, clock=clock).allowance(stage_named("rewards"), ["rewards"]) == (120 - 12, 120)


def test_waiting_replies_run_in_parallel_and_blocking_ones_do_not() -> None:
    assert fitting(Pace(2, 1.28, 0.0), 12.8, at_once=8) == 80
    assert fitting(Pace(2, 1.28, 1.28), 12.8, at_once=8) == 10


@pytest.mark.parametrize("kind", ["timeout", "raised"])
def test_job_ended_at_the_deadline_is_a_cut_and_one_that_raised_is_a_failure(kind: Any) -> None:
    collected = CollectedFacts(ProgressListener())
    failure = collected.failures["rewards"] = Failure(kind, "Any", "no answer after 40 s")
    collected.add("rewards", "score", object())
    collected.count_as_cut("rewards")
    assert collected.failures == ({} if kind == "timeout" else {"rewards": failure})
    cut = Cut("rewards", "results", 1, 0, reason="no answer after 40 s")
    assert collected.kept("cut") == ((cut,) if kind == "timeout" else ())


def test_cut_is_counted_while_other_stages_add() -> None:
    collected = CollectedFacts(ProgressListener())

    def add() -> None:
        for number in range(20_000):
            collected.add("search", f"kind {number}", number)

    adding = threading.Thread(target=add)
    adding.start()
    while adding.is_alive():
        collected.failures["rewards"] = Failure("timeout", "Timeout", "no answer after 40 s")
        collected.count_as_cut("rewards")
    adding.join()
    assert collected.failures == {}
