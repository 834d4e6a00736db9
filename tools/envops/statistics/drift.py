"""Drift: what the same policy earns now and what it earned when the baseline was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Literal

from envops.statistics.baseline import means_now
from envops.statistics.clusters import paired_difference
from envops.statistics.intervals import Estimate, fold_that_decides

if TYPE_CHECKING:
    from envops.facts.observed import Facts
    from envops.statistics.baseline import Baseline
    from envops.statistics.outcomes import Sample

Drift = Literal["pass", "worse", "better", "inconclusive"]


@dataclass(frozen=True)
class Drifted:
    """Where the difference lies, and what that means."""

    estimate: Estimate
    tasks: int
    """Tasks that both measurements have."""
    answer: Drift
    more: str = ""


def drift(sample: Sample, facts: Facts, baseline: Baseline, margin: float) -> Drifted | None:
    """The paired difference by task, or `None` where there is nothing to compare with."""
    if baseline.policy != sample.policy:
        return None
    now = means_now(sample, facts)
    then = {key: each.mean for key, each in baseline.tasks.items()}
    estimate = paired_difference(now, then, sample.confidence)
    if estimate is None:
        return None
    tasks = len(now.keys() & then.keys())
    answer = answer_of(estimate, margin)
    return Drifted(estimate, tasks, answer, _more(estimate, margin, tasks) if answer == "inconclusive" else "")


def answer_of(estimate: Estimate, margin: float) -> Drift:
    """What an interval of the difference says.

    Worse when all of it is below 0, unless all of it is above −margin: a change that is sure
    and small is harmless. Better likewise. PASS when all of it is above −margin, that is when a drop
    by the margin is ruled out; else INCONCLUSIVE.

    Source: non-inferiority beside superiority in one interval, G. Piaggio et al., "Reporting
    of Noninferiority and Equivalence Randomized Trials", JAMA 308(24), 2012, figure 1.
    """
    if estimate.high < 0 and estimate.low < -margin:
        return "worse"
    if estimate.low > 0 and estimate.high > margin:
        return "better"
    return "pass" if estimate.low >= -margin else "inconclusive"


def _more(estimate: Estimate, margin: float, tasks: int) -> str:
    """Enough to part the interval either from 0 or from the margin, whichever takes less."""
    folds = [fold for bound in (0.0, -margin) if (fold := fold_that_decides(estimate, bound)) is not None]
    if not folds:
        return "no number of rollouts in reach would decide"
    return f"about {max(1, ceil(tasks * (min(folds) - 1)))} more tasks, here and in the baseline, would decide"
