"""Whether two scores of one conversation are the same."""

from __future__ import annotations

import math

REWARD_DIFFERENCE = 1e-9
"""The difference below which two scores are equal."""


def same_reward(one: float | None, other: float | None) -> bool:
    """Whether two scores are the same; a missing one equals only a missing one, and NaN only NaN."""
    if one is None or other is None:
        return one is other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=REWARD_DIFFERENCE, abs_tol=REWARD_DIFFERENCE)
