"""How rewards go together: with each other and with the size of a conversation."""

from __future__ import annotations

from itertools import pairwise

import pytest
from envwright.statistics.relations import SizedReward, correlation, rewards_by_size


def sized(*pairs: tuple[int, float]) -> list[SizedReward]:
    return [SizedReward(task, size, reward) for task, (size, reward) in enumerate(pairs)]


def test_correlation_of_opposite_and_equal_scores() -> None:
    assert correlation([(0.0, 1.0), (1.0, 0.0), (0.5, 0.5)]) == pytest.approx(-1.0)
    assert correlation([(0.0, 2.0), (1.0, 4.0)]) == pytest.approx(1.0)
    assert correlation([(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]) == pytest.approx(0.0)


@pytest.mark.parametrize("pairs", [[], [(1.0, 2.0)], [(1.0, 0.0), (1.0, 1.0)]])
def test_correlation_without_variation_is_unknown(pairs: list[tuple[float, float]]) -> None:
    assert correlation(pairs) is None


def test_rewards_by_size_few_sizes_have_a_bin_each() -> None:
    bins = rewards_by_size(sized((1, 0.0), (1, 1.0), (3, 1.0)), 0.95)
    assert [(one.least, one.most, one.count, one.mean) for one in bins] == [(1, 1, 2, 0.5), (3, 3, 1, 1.0)]
    assert bins[0].low < 0.5 < bins[0].high


def test_rewards_by_size_many_sizes_are_binned_alike_and_none_is_divided() -> None:
    bins = rewards_by_size(sized(*[(size, 1.0) for size in range(80)], *[(7, 0.0)] * 30), 0.95)
    assert len(bins) <= 8
    assert sum(one.count for one in bins) == 110
    assert all(first.most < second.least for first, second in pairwise(bins))
