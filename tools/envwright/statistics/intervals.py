"""Intervals for means and shares, with the standard library alone.

Rewards are shares of a declared range, so they lie between 0 and 1, and there are few tasks. An interval of the form
"mean ± something" then leaves the range, and shrinks to nothing if all observations are equal. Wilson's interval does
neither, so everything bounded uses it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_FOLD = 1e6
"""Most times the present data that a report advises to collect."""


@dataclass(frozen=True)
class MeasuredValue:
    """A number with its interval."""

    value: float
    low: float
    high: float


def measured_value(estimate: MeasuredValue | None) -> MeasuredValue | None:
    return None if estimate is None else MeasuredValue(estimate.value, estimate.low, estimate.high)


@dataclass(frozen=True)
class Estimate(MeasuredValue):
    """A number with its interval, and how it narrows with more data."""

    effective: float = 0.0
    """The equivalent number of independent observations."""
    critical: float = 0.0
    """The quantile behind the interval."""
    bounded: bool = True
    """Wilson's interval; otherwise the value plus and minus the critical number of standard errors."""

    def with_fold(self, fold: float) -> Estimate:
        """The interval with `fold` times as much of the same data."""
        if self.bounded:
            low, high = wilson(self.value, self.effective * fold, self.critical)
        else:
            narrow = math.sqrt(fold)
            low = self.value - (self.value - self.low) / narrow
            high = self.value + (self.high - self.value) / narrow
        return Estimate(self.value, low, high, self.effective * fold, self.critical, self.bounded)


def normal_quantile(confidence: float) -> float:
    """Quantile of the two-sided interval of a normal variable: 1.96 for 0.95.

    Source: M. J. Wichura, "Algorithm AS 241", Applied Statistics 37(3), 1988, as in
    `statistics.NormalDist`.
    """
    return NormalDist().inv_cdf(0.5 + confidence / 2)


@lru_cache(maxsize=1024)
def t_quantile(confidence: float, degrees: int) -> float:
    """Quantile of the two-sided interval of Student's t: 2.262 for 0.95 and 9 degrees.

    The distribution function by the incomplete beta function (`incomplete_beta`), inverted by
    bisection. Infinite without a degree of freedom.
    """
    if degrees < 1:
        return math.inf

    def reached(t: float) -> bool:
        return 1 - incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) >= confidence

    high = 1.0
    while not reached(high):
        high *= 2
        if high > 1e12:
            return math.inf
    return _bisected(reached, high)


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b).

    Source: continued fraction 8.17.22 of the NIST Digital Library of Mathematical Functions,
    evaluated by W. J. Lentz's method, Applied Optics 15(3), 1976.
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    tiny = 1e-300
    fraction = c = 1.0
    d = 0.0
    for step in range(400):
        half = step // 2
        if step == 0:
            numerator = 1.0
        elif step % 2 == 0:
            numerator = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        else:
            numerator = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        d = 1 / ((1 + numerator * d) or tiny)
        c = (1 + numerator / c) or tiny
        fraction *= c * d
        if abs(1 - c * d) < 1e-15:
            break
    return front * (fraction - 1)


def wilson(share: float, count: float, critical: float) -> tuple[float, float]:
    """Wilson's score interval for a share of `count` independent observations.

    `count` may be an effective number, as for clustered samples.

    Sources: E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical
    Inference", JASA 22, 1927; for effective sizes E. L. Korn, B. I. Graubard, "Confidence
    Intervals for Proportions with Small Expected Number of Positive Counts", Survey
    Methodology 24(2), 1998, and N. Dean, M. Pagano, "Evaluating Confidence Interval Methods
    for Binomial Proportions in Clustered Surveys", J. Survey Statistics and Methodology 3, 2015.
    """
    if count <= 0 or not math.isfinite(critical):
        return 0.0, 1.0
    weight = critical * critical / count
    center = (share + weight / 2) / (1 + weight)
    spread = math.sqrt(max(0.0, share * (1 - share) * weight + weight * weight / 4)) / (1 + weight)
    return max(0.0, min(share, center - spread)), min(1.0, max(share, center + spread))


def wilson_of(hits: int, count: int, confidence: float) -> Estimate:
    """A share of independent observations with Wilson's interval."""
    critical = normal_quantile(confidence)
    share = hits / count if count else 0.0
    low, high = wilson(share, count, critical)
    return Estimate(share, low, high, count, critical)


def fold_that_decides(estimate: Estimate, bound: float) -> float | None:
    """The factor by which the same data must grow to separate the interval from the bound.

    It assumes that the value stays the same, so it is a guide and no promise. `None` if the value lies on the bound, or
    nearly so.

    Source: sample sizes by the required precision, W. G. Cochran, "Sampling
    Techniques", 3rd edition 1977, chapter 4.
    """

    def decided(fold: float) -> bool:
        wider = estimate.with_fold(fold)
        return wider.low > bound or wider.high < bound

    if not math.isfinite(estimate.low + estimate.high) or not decided(MOST_FOLD):
        return None
    return math.exp(_bisected(lambda power: decided(math.exp(power)), math.log(MOST_FOLD)))


def _bisected(holds: Callable[[float], bool], high: float) -> float:
    """The place at which a condition begins to hold, which is false at 0 and true at `high`."""
    low = 0.0
    for _ in range(100):
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


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
