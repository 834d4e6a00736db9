"""Statistics of rewards, as pure functions. Each names where its method comes from."""

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


def standard_deviation(values: Sequence[float]) -> float:
    """The sample standard deviation: two passes, n − 1 in the denominator; 0 for one value.

    Source: T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for Computing the Sample
    Variance: Analysis and Recommendations", The American Statistician 37(3), 1983.
    Raises `ValueError` when there are no values.
    """
    center = mean(values)
    if len(values) == 1:
        return 0.0
    return math.sqrt(math.fsum((value - center) ** 2 for value in values) / (len(values) - 1))


def coverage(scored: int, attempted: int) -> float:
    """The share of rollouts that have a reward: a missing reward is not zero.

    Source: E. Miller, "Adding Error Bars to Evals", arXiv 2411.00640, on missing
    observations; the bound of 0.9 is this project's own. Nothing attempted is no coverage.
    """
    return scored / attempted if attempted else 0.0
