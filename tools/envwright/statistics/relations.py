"""How rewards go together: with each other, and with the size of a conversation."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from envwright.statistics.clusters import clustered_mean

MOST_BINS = 8


class Correlation(NamedTuple):
    """Pearson's coefficient of two functions over the same conversations."""

    first: str
    second: str
    coefficient: float | None
    """`None` if one of them never varies, so that nothing is known."""
    rollouts: int
    """Conversations in which both have a number."""


class RewardBySize(NamedTuple):
    """The mean reward of conversations of similar size, with its interval."""

    least: int
    most: int
    rollouts: int
    mean: float
    low: float | None
    high: float | None
    """`None` for conversations on one task, which have no interval."""


@dataclass(frozen=True)
class SizedReward:
    """The reward of one conversation on a task, and its size in characters or turns."""

    task: Hashable
    size: int
    reward: float


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's coefficient; `None` if a side does not vary."""
    if len(pairs) < 2:
        return None
    centers = [math.fsum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1)]
    moved = [(first - centers[0], second - centers[1]) for first, second in pairs]
    spreads = [math.fsum(pair[side] ** 2 for pair in moved) for side in (0, 1)]
    if min(spreads) <= 1e-12:
        return None
    coefficient = math.fsum(first * second for first, second in moved) / (math.sqrt(spreads[0]) * math.sqrt(spreads[1]))
    return max(-1.0, min(1.0, coefficient))


def rewards_by_size(rewards: Sequence[SizedReward], confidence: float) -> tuple[RewardBySize, ...]:
    """Conversations in order of their size, in at most eight bins of about the same number.

    Conversations of one size are never divided. The interval is clustered by task.
    """
    by_size: dict[int, list[SizedReward]] = defaultdict(list)
    for reward in rewards:
        by_size[reward.size].append(reward)
    whole = math.ceil(len(rewards) / MOST_BINS) if len(by_size) > MOST_BINS else 1
    bins: list[list[SizedReward]] = []
    for size in sorted(by_size):
        if bins and len(bins[-1]) < whole:
            bins[-1] += by_size[size]
        else:
            bins.append(list(by_size[size]))
    return tuple(_bin(found, confidence) for found in bins)


def _bin(found: Sequence[SizedReward], confidence: float) -> RewardBySize:
    by_task: dict[Hashable, list[float]] = defaultdict(list)
    for each in found:
        by_task[each.task].append(each.reward)
    estimate = clustered_mean(list(by_task.values()), confidence)
    low, high = (estimate.low, estimate.high) if len(by_task) > 1 else (None, None)
    return RewardBySize(found[0].size, found[-1].size, len(found), estimate.value, low, high)
