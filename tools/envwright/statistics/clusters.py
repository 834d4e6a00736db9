"""Means of rewards, as rollouts of one task resemble each other more than those of two.

Tasks are the clusters: twice as many rollouts of the same tasks are not twice as much evidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envwright.facts.reward_numbers import bounded
from envwright.statistics.intervals import Estimate, mean, normal_quantile, t_quantile, wilson

if TYPE_CHECKING:
    from collections.abc import Mapping

Clusters = Sequence[Sequence[float]]
"""Values task by task; no task is empty."""


def clustered_mean(clusters: Clusters, confidence: float) -> Estimate:
    """The mean of all values with an interval that accounts for clusters.

    The standard error is the cluster-robust one of E. Miller, "Adding Error Bars to Evals",
    arXiv 2411.00640, section 2.2, with the small-sample factor m / (m − 1) of A. C. Cameron,
    D. L. Miller, "A Practitioner's Guide to Cluster-Robust Inference", J. Human Resources
    50(2), 2015, and Student's t with m − 1 degrees for m tasks.

    Values between 0 and 1 get Wilson's interval at the effective size p(1 − p) / SE² (Korn and Graubard; see `wilson`).
    If everything is equal, the standard error is not an estimate, and the effective size is the number of tasks:
    another task may differ. Other values get the plain interval.
    """
    clusters = _bounded(clusters)
    values = [value for cluster in clusters for value in cluster]
    center = mean(values)
    critical = t_quantile(confidence, len(clusters) - 1)
    error = standard_error(clusters, center)
    if all(0 <= value <= 1 for value in values):
        effective = center * (1 - center) / error**2 if error > 1e-9 else float(len(clusters))
        low, high = wilson(center, effective, critical)
        return Estimate(center, low, high, effective, critical)
    spread = critical * error if error > 0 or math.isfinite(critical) else math.inf
    return Estimate(center, center - spread, center + spread, len(clusters), critical, bounded=False)


def _bounded(clusters: Clusters) -> Clusters:
    return [list(map(bounded, cluster)) for cluster in clusters]


def standard_error(clusters: Clusters, center: float) -> float:
    """Cluster-robust standard error of the mean; see `clustered_mean`.

    Never below that of independent values: rollouts of one task do not repel each other, so a
    smaller one is luck (design effects are truncated at 1, as Korn and Graubard do).
    """
    count, tasks = sum(map(len, clusters)), len(clusters)
    if tasks < 2:
        return 0.0
    sums = math.fsum(math.fsum(value - center for value in cluster) ** 2 for cluster in clusters)
    squares = math.fsum((value - center) ** 2 for cluster in clusters for value in cluster)
    return max(math.sqrt(sums * tasks / (tasks - 1)) / count, math.sqrt(squares / (count - 1) / count))


def clustered_share(hits: Clusters, confidence: float) -> Estimate:
    """The share of rollouts to which something happens, with Wilson's interval.

    If it happens to some tasks more than to others, the effective size is that of
    the clusters (Korn and Graubard; see `wilson`). If it never happens, rollouts count as
    independent, as usual for incidents.
    """
    clusters = [[float(hit) for hit in cluster] for cluster in hits]
    count = sum(map(len, clusters))
    critical = normal_quantile(confidence)
    if not count:
        return Estimate(0.0, 0.0, 1.0, 0.0, critical)
    share = math.fsum(map(math.fsum, clusters)) / count
    error = standard_error(clusters, share)
    effective = min(float(count), share * (1 - share) / error**2) if error > 1e-9 else float(count)
    low, high = wilson(share, effective, critical)
    return Estimate(share, low, high, effective, critical)


def share_of_tasks(values: Sequence[float], confidence: float, independent: int = 0) -> Estimate:
    """The mean of one number per task, each between 0 and 1: Wilson's interval.

    With zeros and ones it is Wilson's own; values between them count for more, by the effective size (Korn and
    Graubard; see `wilson`). `independent` is that size if the tasks are no sample: the observations behind the values.
    """
    critical = normal_quantile(confidence)
    if not values:
        return Estimate(0.0, 0.0, 1.0, 0.0, critical)
    center = mean(values)
    variance = mean([(value - center) ** 2 for value in values])
    effective = independent or len(values) * (center * (1 - center) / variance if variance > 1e-12 else 1.0)
    low, high = wilson(center, effective, critical)
    return Estimate(center, low, high, effective, critical)


def clustered_deviation(clusters: Clusters, confidence: float) -> Estimate:
    """The standard deviation of all values, with an interval that accounts for clusters.

    The variance is the mean of squared distances from the mean, so its standard error is their clustered one (delta
    method: A. W. van der Vaart, "Asymptotic Statistics", 1998, chapter 3, with the second-order term 2 SE⁴ of the mean,
    without which a coin would have no error at all); the interval is taken on the variance and its root drawn. If
    nothing ever varied, that error is 0 and proves nothing: another reward may be as frequent as Wilson's upper bound
    for none of so many rollouts, and a share q of them deviates by √(q(1 − q)).
    """
    center = mean([value for cluster in clusters for value in cluster])
    squares = [[(value - center) ** 2 for value in cluster] for cluster in clusters]
    count = sum(map(len, clusters))
    variance = math.fsum(map(math.fsum, squares)) / max(1, count - 1)
    first = standard_error(squares, math.fsum(map(math.fsum, squares)) / count)
    error = math.hypot(first, math.sqrt(2) * standard_error(clusters, center) ** 2)
    critical = t_quantile(confidence, len(clusters) - 1)
    if len(clusters) < 2:
        return Estimate(math.sqrt(variance), 0.0, math.inf, len(clusters), critical, bounded=False)
    if variance < 1e-18:
        unseen = wilson(0.0, count, normal_quantile(confidence))[1]
        return Estimate(0.0, 0.0, math.sqrt(unseen * (1 - unseen)), len(clusters), critical, bounded=False)
    spread = critical * error
    low, high = math.sqrt(max(0.0, variance - spread)), math.sqrt(variance + spread)
    return Estimate(math.sqrt(variance), low, high, len(clusters), critical, bounded=False)


def paired_difference(now: Mapping[str, float], then: Mapping[str, float], confidence: float) -> Estimate | None:
    """Mean change per task over the tasks that both have, or `None` with fewer than two of them.

    Differences between tasks cancel out, so a change is detected with far fewer rollouts than by two means.

    Source: E. Miller, arXiv 2411.00640, section 4.2 (paired differences); Student's t over
    tasks. The noise of both measurements is in the differences.
    """
    differences = [bounded(now[task]) - bounded(then[task]) for task in sorted(now.keys() & then.keys())]
    if len(differences) < 2:
        return None
    center = mean(differences)
    deviation = math.sqrt(math.fsum((difference - center) ** 2 for difference in differences) / (len(differences) - 1))
    critical = t_quantile(confidence, len(differences) - 1)
    spread = critical * deviation / math.sqrt(len(differences))
    return Estimate(center, center - spread, center + spread, len(differences), critical, bounded=False)


@dataclass(frozen=True)
class Variance:
    """The variance of rewards by source."""

    within: float
    """Mean variance among rollouts of one task, from which a group learns."""
    between: float
    """Variance of the tasks' own means: difficulty, which a group never sees."""


def variance_parts(clusters: Clusters) -> Variance:
    """Variance within and between tasks, for tasks with two rollouts and more.

    Source: one-way random-effects analysis of variance, S. R. Searle, G. Casella, C. E.
    McCulloch, "Variance Components", 1992, chapter 3 (unbalanced data, estimates below 0 set to 0).
    """
    several = [cluster for cluster in _bounded(clusters) if len(cluster) > 1]
    if not several:
        return Variance(0.0, 0.0)
    counts = [len(cluster) for cluster in several]
    total, tasks = sum(counts), len(several)
    means = [mean(cluster) for cluster in several]
    squares = math.fsum((value - own) ** 2 for cluster, own in zip(several, means, strict=True) for value in cluster)
    within = squares / (total - tasks)
    if tasks < 2:
        return Variance(within, 0.0)
    center = math.fsum(count * own for count, own in zip(counts, means, strict=True)) / total
    between = math.fsum(count * (own - center) ** 2 for count, own in zip(counts, means, strict=True)) / (tasks - 1)
    typical = (total - sum(count * count for count in counts) / total) / (tasks - 1)
    return Variance(within, max(0.0, (between - within) / typical))
