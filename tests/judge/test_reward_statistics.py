"""Statistics, checked against values worked out elsewhere."""

from __future__ import annotations

import pytest
from envops.judge.statistics import coverage, mean


def test_mean_does_not_lose_small_values() -> None:
    assert mean([1e16, 1.0, -1e16]) == pytest.approx(1 / 3)


def test_no_values_have_no_mean() -> None:
    with pytest.raises(ValueError, match="no values"):
        mean([])


def test_coverage_of_nothing_is_nothing() -> None:
    assert coverage(9, 10) == 0.9
    assert coverage(0, 0) == 0.0
