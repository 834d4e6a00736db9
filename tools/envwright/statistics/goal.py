"""Whether an improvement is as large as it has to be to be worth having."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from envwright.statistics.intervals import Estimate, fold_that_decides, wilson_of

GoalAnswer = Literal["reached", "smaller", "undecided", "worse"]
GOAL_ANSWERS: tuple[GoalAnswer, ...] = ("worse", "smaller", "undecided", "reached")
"""The worst first: the answer for several environments is the worst of them."""


@dataclass(frozen=True)
class EffectAnswer:
    """The answer, and what would decide an undecided one."""

    answer: GoalAnswer
    reason: str
    fold: int | None = None
    """How many times the tasks would decide at the same rates; `None` if it is decided, or no feasible number."""


def with_width(difference: Estimate, tasks: int, confidence: float) -> Estimate:
    """The difference with an interval that tasks which all changed alike do not make too narrow.

    Student's interval has no width then. That none of n tasks differs from the others leaves room for a share of tasks
    up to Wilson's bound for 0 of n, each of which may differ by the whole range.
    """
    if difference.high > difference.low:
        return difference
    room = wilson_of(0, tasks, confidence).high
    return replace(difference, low=difference.value - room, high=difference.value + room)


def judged(difference: Estimate, smallest: float) -> EffectAnswer:
    """Compare the interval of a paired difference with the smallest effect worth having.

    Reached if all of it is at or above the effect, worse if all of it is below 0, smaller if all of it is below the
    effect, otherwise undecided.

    Source: the positions of a confidence interval relative to a margin in superiority trials, G. Piaggio et al.,
    "Reporting of Noninferiority and Equivalence Randomized Trials", JAMA 308, 2012, figure 1.
    """
    low, high = difference.low, difference.high
    if high < 0:
        return EffectAnswer("worse", "the whole interval is below 0")
    if low >= smallest and low > 0:
        return EffectAnswer("reached", f"the whole interval is at or above {smallest:g}" if smallest else "above 0")
    if high < smallest:
        return EffectAnswer("smaller", f"{'better, but ' if low > 0 else ''}the whole interval is below {smallest:g}")
    fold = fold_that_decides(difference, smallest)
    message = "better, but the interval includes" if low > 0 and smallest else "the interval includes"
    return EffectAnswer("undecided", f"{message} {smallest:g}", None if fold is None else math.ceil(fold))
