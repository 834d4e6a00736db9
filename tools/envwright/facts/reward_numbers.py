"""Rewards and other numbers from elsewhere: whether one exists, its bound for statistics, and its text."""

from __future__ import annotations

import math
import sys
from typing import TypeGuard, TypeVar

RewardNumber = TypeVar("RewardNumber", float, float | None)

LARGEST = 1e100
"""Statistics take numbers beyond it for it: their squares, or sums of squares, would overflow."""


def is_reward_number(reward: float | None) -> TypeGuard[float]:
    """Whether a reward exists and is finite."""
    return reward is not None and math.isfinite(reward)


def bounded(value: RewardNumber) -> RewardNumber:
    return math.copysign(LARGEST, value) if is_reward_number(value) and abs(value) > LARGEST else value


def finite_number(value: object) -> float | None:
    """A number in data from elsewhere, as statistics take it; `None` for a boolean, NaN, an infinity and all else."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= sys.float_info.max:
        return None  # NaN is not at most anything
    return bounded(float(value))


def number(value: float | None) -> str:
    """A reward as text, with as many digits as distinguish it from its neighbours."""
    return "none" if value is None else f"{value:.7g}"
