"""The measurements of one policy in the distribution gate: numbers, checks, advice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envwright.statistics.checks import (
    MeasuredCheck,
    UnjudgedCheck,
    checks_of,
    group_size_measured,
    groups_are_live,
    unjudged_checks,
)
from envwright.statistics.clusters import Variance, clustered_mean, share_of_tasks, variance_parts
from envwright.statistics.groups import pass_at, predicted_live
from envwright.statistics.intervals import Estimate
from envwright.statistics.shaping import Shaping, shaping
from envwright.statistics.summary import mean
from envwright.statistics.training_advice import TrainingAdvice, advice

if TYPE_CHECKING:
    from envwright.declarations.registry import DistributionGate
    from envwright.statistics.outcomes import RolloutSample

PASS_AT = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Distribution:
    """The distribution of one policy's rewards, as shares of the declared range."""

    policy: str
    scripted: bool
    tasks: int
    attempted: int
    scored: int
    errors: Mapping[str, int]
    mean: Estimate | None
    variance: Variance
    group_size: int
    """The size of the groups that could be judged."""
    live: Estimate | None
    """Share of informative groups of that size."""
    predicted_live: float | None
    """The share that per-task rates predict at the configured size."""
    pass_at: Mapping[int, float]
    """Chance that one of k rollouts earns the maximum."""
    shaping: Shaping | None
    checks: tuple[MeasuredCheck, ...]
    advice: tuple[TrainingAdvice, ...]
    unjudged: tuple[UnjudgedCheck, ...] = ()
    """Classic checks without a measure."""
    pass_range: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """The interval of each pass@k, over tasks."""


def distribution_of(sample: RolloutSample, gate: DistributionGate) -> Distribution:
    """The measurements of one policy."""
    clusters = sample.clusters
    live = groups_are_live(sample, gate) if clusters else None
    rates = pass_rates(sample)
    return Distribution(
        policy=sample.policy,
        scripted=sample.is_scripted,
        tasks=len(sample.by_task),
        attempted=sample.attempted,
        scored=len(sample.scored),
        errors={str(name): count for name, count in sorted(sample.errors.items())},
        mean=clustered_mean(clusters, sample.confidence) if clusters else None,
        variance=variance_parts(clusters),
        group_size=group_size_measured(sample, gate) if clusters else 0,
        live=live.estimate if live is not None else None,
        predicted_live=mean([predicted_live(each, gate.group_size) for each in clusters]) if clusters else None,
        pass_at={k: estimate.value for k, estimate in rates.items()},
        shaping=shaping(sample),
        checks=tuple(checks_of(sample, gate)),
        advice=advice(sample, gate) if clusters else (),
        unjudged=tuple(unjudged_checks(sample, gate)),
        pass_range={k: (estimate.low, estimate.high) for k, estimate in rates.items()},
    )


def pass_rates(sample: RolloutSample) -> dict[int, Estimate]:
    """pass@k over tasks, for each usual k for which every task has enough rollouts; success is the declared maximum."""
    declared = sample.range
    counts = [
        (
            sum(each.reward is not None and declared.reaches(each.reward, declared.maximum) for each in outcomes),
            len(outcomes),
        )
        for outcomes in sample.by_task.values()
    ]
    least = min((count for _, count in counts), default=0)
    return {
        k: share_of_tasks([pass_at(hits, count, k) for hits, count in counts], sample.confidence)
        for k in PASS_AT
        if k <= least
    }
