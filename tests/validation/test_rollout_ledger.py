"""Results of verifiers 0.3 belong to the task and number of their row."""

from __future__ import annotations

from envwright_worker.adapters.v0 import JOB, RolloutLedger
from envwright_worker.failures import Sources

ROWS = [({"example_id": 0}, 3, 1), ({"example_id": 1}, 4, 0)]


def test_result_of_a_copied_row_is_found_by_its_example_id() -> None:
    assert RolloutLedger(ROWS, Sources()).settled({"example_id": 1}) == (4, 0)


def test_result_with_another_example_id_keeps_the_job_of_its_row() -> None:
    assert RolloutLedger(ROWS, Sources()).settled({"example_id": "train-00000", JOB: (3, 1)}) == (3, 1)
