"""The choice of probe tasks, and the scores of candidates on them."""

from __future__ import annotations

from typing import Any

import pytest
from envwright_worker.effort import ProcessorBudget
from envwright_worker.search.grading import CandidateGrader, Graded


def unused(_place: int, _reply: str, _blind: bool) -> Any:
    raise AssertionError


@pytest.mark.parametrize(
    ("gold", "nothing", "taken"),
    [(1.0, 0.0, True), (1.0, 1.0, True), (1.0, None, True), (None, 0.0, False), (0.0, None, False)],
)
def test_search_runs_unless_reference_reply_earns_nothing(gold: Any, nothing: Any, taken: bool):
    grader = CandidateGrader(unused, None, 10, ProcessorBudget(10.0, 10.0))
    assert grader.meet(Graded(gold, {}, {}), Graded(nothing, {}, {})) == taken
