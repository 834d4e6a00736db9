"""The baseline of each task, and drift: the difference between the rewards now and in the baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

from envwright.facts.results import task_key
from envwright.statistics.clusters import paired_difference
from envwright.statistics.intervals import Estimate, fold_that_decides
from envwright.statistics.summary import mean

if TYPE_CHECKING:
    from envwright.facts.observed import Facts
    from envwright.statistics.outcomes import RolloutSample, TaskId

VERSION = 1


@dataclass(frozen=True)
class TaskBaseline:
    """The rewards of one task."""

    count: int
    mean: float
    """The mean of the rewards as shares of the declared range."""


@dataclass(frozen=True)
class Baseline:
    """One policy or model on the tasks of one environment, as measured for the baseline."""

    policy: str
    digest: str
    """Digest of the measured package."""
    tasks: Mapping[str, TaskBaseline]
    """Fingerprint of a task's content → its rewards; indices move, content does not."""


def means_now(sample: RolloutSample, facts: Facts) -> dict[str, float]:
    """The mean share of each task of a sample, by fingerprint."""
    keyed = ((key_of(task, facts), shares) for task, shares in sample.shares.items())
    return {key: mean(shares) for key, shares in keyed if key is not None}


def key_of(task: TaskId, facts: Facts) -> str | None:
    """The fingerprint of a task; `None` for an unknown index."""
    if isinstance(task, str):
        return task
    known = facts.tasks[task] if task < len(facts.tasks) and facts.tasks[task].index == task else None
    known = known or next((each for each in facts.tasks if each.index == task), None)
    return None if known is None else task_key(known.prompt, known.data)


def read_baseline(data: Any) -> Baseline:
    """A baseline from the data of a file; raises `ValueError` if it is not a baseline."""
    try:
        if data["version"] != VERSION:
            raise ValueError(f"a baseline of version {data['version']!r}, this release reads {VERSION}")
        tasks = {str(key): TaskBaseline(int(each["count"]), float(each["mean"])) for key, each in data["tasks"].items()}
        baseline = Baseline(str(data["policy"]), str(data["digest"]), tasks)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not a baseline: {type(error).__name__}: {error}") from None
    if not all(each.count > 0 and math.isfinite(each.mean) for each in tasks.values()):
        raise ValueError("a task of the baseline has no rollouts or no finite mean")
    return baseline


Drift = Literal["pass", "worse", "better", "inconclusive"]


@dataclass(frozen=True)
class Drifted:
    """The difference and its verdict."""

    estimate: Estimate
    tasks: int
    """Tasks that both measurements have."""
    answer: Drift
    more: str = ""


def drift(sample: RolloutSample, facts: Facts, baseline: Baseline, margin: float) -> Drifted | None:
    """The paired difference by task, or `None` without a baseline."""
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
    """The verdict of an interval of the difference.

    Worse if all of it is below 0, unless all of it is above −margin: a significant but small change is harmless. Better
    likewise. PASS if all of it is above −margin, which rules out a drop by the margin; else INCONCLUSIVE.

    Source: non-inferiority beside superiority in one interval, G. Piaggio et al., "Reporting
    of Noninferiority and Equivalence Randomized Trials", JAMA 308(24), 2012, figure 1.
    """
    if estimate.high < 0 and estimate.low < -margin:
        return "worse"
    if estimate.low > 0 and estimate.high > margin:
        return "better"
    return "pass" if estimate.low >= -margin else "inconclusive"


def _more(estimate: Estimate, margin: float, tasks: int) -> str:
    """The rollouts that separate the interval from 0 or from the margin, whichever needs fewer."""
    folds = [fold for bound in (0.0, -margin) if (fold := fold_that_decides(estimate, bound)) is not None]
    if not folds:
        return "no feasible number of rollouts would decide"
    return f"about {max(1, ceil(tasks * (min(folds) - 1)))} more tasks, here and in the baseline, would decide"
