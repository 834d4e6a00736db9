"""Statistics of rewards, as pure functions. Each names the source of its method."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean, summed without rounding error.

    Source: J. R. Shewchuk, "Adaptive Precision Floating-Point Arithmetic and Fast Robust
    Geometric Predicates", 1997 (`math.fsum`). Raises `ValueError` when there are no values.
    """
    if not values:
        raise ValueError("the mean of no values")
    return math.fsum(values) / len(values)


def coverage(scored: int, attempted: int) -> float:
    """The share of rollouts that have a reward: a missing reward is not zero.

    Source: E. Miller, "Adding Error Bars to Evals", arXiv 2411.00640, on missing
    observations; the bound of 0.9 is this project's own. Nothing attempted means no coverage.
    """
    return scored / attempted if attempted else 0.0
