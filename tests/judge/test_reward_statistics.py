"""Statistics, checked against values worked out elsewhere."""

from __future__ import annotations

import statistics

import pytest
from envops.judge.statistics import coverage, mean, standard_deviation


def test_mean_does_not_lose_small_values() -> None:
    assert mean([1e16, 1.0, -1e16]) == pytest.approx(1 / 3)


def test_standard_deviation_is_that_of_a_sample() -> None:
    values = [0.0, 0.2, 0.2, 1.0, 0.5]
    assert standard_deviation(values) == pytest.approx(statistics.stdev(values))
    assert standard_deviation([0.7]) == 0.0
    assert standard_deviation([1e9 + 1, 1e9 + 2, 1e9 + 3]) == pytest.approx(1.0)


def test_no_values_have_no_mean() -> None:
    with pytest.raises(ValueError, match="no values"):
        mean([])
    with pytest.raises(ValueError, match="no values"):
        standard_deviation([])


def test_coverage_of_nothing_is_nothing() -> None:
    assert coverage(9, 10) == 0.9
    assert coverage(0, 0) == 0.0
