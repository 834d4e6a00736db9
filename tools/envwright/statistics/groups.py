"""Groups: the rollouts of one task that a trainer compares with each other.

A group in which all rewards are equal has zero variance: every advantage is 0, so training learns nothing from it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

DIGITS = 6
"""The number of digits to which equal rewards agree."""


def distinct(values: Sequence[float]) -> Counter[float]:
    """The frequency of each reward."""
    return Counter(round(value, DIGITS) for value in values)


def chance_of_live_group(values: Sequence[float], size: int) -> float:
    """Chance that `size` of these rewards, drawn without replacement, are not all equal.

    With as many rollouts as the group has, that is 0 or 1, as observed. With more, it is the
    mean over every group that could be drawn from them: unbiased, and no group is drawn (a
    U-statistic: W. Hoeffding, Annals of Mathematical Statistics 19(3), 1948; the
    hypergeometric chance of equal rewards is Σ C(nᵥ, G) / C(n, G)). Raises `ValueError` with
    fewer rollouts than the group has: then no unbiased estimate exists.
    """
    if len(values) < size:
        raise ValueError(f"{len(values)} rollouts are fewer than a group of {size}")
    every = math.comb(len(values), size)
    return 1 - sum(math.comb(count, size) for count in distinct(values).values()) / every


def predicted_live(values: Sequence[float], size: int) -> float:
    """Chance of an informative group as the measured rates of this task predict it.

    For rewards of two values it is 1 − pᴳ − (1 − p)ᴳ, and with more values 1 − Σ pᵥᴳ. Source:
    Q. Yu et al., "DAPO", arXiv 2503.14476, section 3.2 (dynamic sampling). It works at any
    size of group, but overestimates zero-variance groups with few rollouts: a task that was solved 8 times of
    8 counts as always solved.
    """
    return 1 - math.fsum((count / len(values)) ** size for count in distinct(values).values())


def pass_at(successes: int, count: int, k: int) -> float:
    """Chance that one of `k` rollouts succeeds, unbiased: 1 − C(n − c, k) / C(n, k).

    Source: M. Chen et al., "Evaluating Large Language Models Trained on Code",
    arXiv 2107.03374, section 2.1. Raises `ValueError` when `k` is more than there are rollouts.
    """
    if k > count:
        raise ValueError(f"pass@{k} needs at least {k} rollouts, there are {count}")
    return 1 - math.comb(count - successes, k) / math.comb(count, k)
