"""The measurements of one policy in the distribution gate: numbers, checks, and advice for training.

The advice is arithmetic on the per-task rates of one policy. For a scripted policy it shows the method
and does not apply to a model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from envwright.facts.reward_numbers import is_reward_number
from envwright.statistics.checks import (
    MeasuredCheck,
    UnjudgedCheck,
    checks_of,
    distinct,
    group_size_measured,
    groups_are_live,
    pass_at,
    predicted_live,
    unjudged_checks,
)
from envwright.statistics.declared_range import is_reward
from envwright.statistics.intervals import (
    Estimate,
    MeasuredValue,
    clustered_mean,
    mean,
    measured_value,
    share_of_tasks,
    variance_parts,
    wilson_of,
)
from envwright.statistics.outcomes import TaskId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.declarations.registry import DistributionGate
    from envwright.facts.observed import FunctionScore
    from envwright.statistics.outcomes import RolloutOutcome, RolloutSample

PASS_AT = (1, 2, 4, 8, 16, 32, 64)
Topic = Literal["group size", "batch size", "difficulty filter", "curriculum", "tasks"]
GROUP_SIZES = (8, 16, 32, 64)
WANTED_LIVE = 0.7
"""Beyond this share of informative groups, larger groups cost more rollouts than they save."""
LIVE_GROUPS_PER_STEP = 16
"""The least number of informative groups per step; with fewer, a step depends on the luck of few tasks."""
WASTE = 0.15
"""The share of zero-variance groups above which a filter is worthwhile."""
LEAST_GROUP = 4
"""The least number of rollouts of a task with which equal rewards prove something."""
MOST_NAMED = 20
EASY, HARD = 0.8, 0.2


@dataclass(frozen=True)
class Distribution:
    """The distribution of one policy's rewards, as shares of the declared range."""

    policy: str
    scripted: bool
    tasks: int
    attempted: int
    scored: int
    errors: Mapping[str, int]
    """Rollouts lost, by class of error."""
    mean: MeasuredValue | None
    """Mean reward, clustered by task."""
    variance_within_tasks: float
    variance_between_tasks: float
    group_size: int
    """The size of the groups that could be judged."""
    live_groups: MeasuredValue | None
    """Share of informative groups of that size."""
    predicted_live_groups: float | None
    """The share that per-task rates predict at the configured size."""
    pass_at: Mapping[int, float]
    """Chance that one of k rollouts earns the maximum."""
    shaping: Shaping | None
    checks: tuple[MeasuredCheck, ...]
    advice: tuple[TrainingAdvice, ...]
    not_judged: tuple[UnjudgedCheck, ...] = ()
    """Classic checks without a measure."""
    pass_at_range: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """The interval of each pass@k, over tasks."""


def distribution_of(sample: RolloutSample, gate: DistributionGate) -> Distribution:
    clusters = sample.clusters
    live = groups_are_live(sample, gate) if clusters else None
    rates, variance = pass_rates(sample), variance_parts(clusters)
    return Distribution(
        policy=sample.policy,
        scripted=sample.is_scripted,
        tasks=len(sample.by_task),
        attempted=sample.attempted,
        scored=len(sample.scored),
        errors={str(name): count for name, count in sorted(sample.errors.items())},
        mean=measured_value(clustered_mean(sample.draws(clusters), sample.confidence)) if clusters else None,
        variance_within_tasks=variance.within,
        variance_between_tasks=variance.between,
        group_size=group_size_measured(sample, gate) if clusters else 0,
        live_groups=measured_value(live),
        predicted_live_groups=mean([predicted_live(cluster, gate.group_size) for cluster in clusters])
        if clusters
        else None,
        pass_at={k: estimate.value for k, estimate in rates.items()},
        shaping=shaping(sample),
        checks=tuple(checks_of(sample, gate)),
        advice=advice(sample, gate) if clusters else (),
        not_judged=tuple(unjudged_checks(sample, gate)),
        pass_at_range={k: (estimate.low, estimate.high) for k, estimate in rates.items()},
    )


def pass_rates(sample: RolloutSample) -> dict[int, Estimate]:
    """pass@k over tasks, for each usual k for which every task has enough rollouts; success is the declared maximum."""
    declared = sample.range
    counts = [
        (
            sum(
                outcome.reward is not None and declared.reaches(outcome.reward, declared.maximum)
                for outcome in outcomes
            ),
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


@dataclass(frozen=True)
class Shaping:
    """Variance within groups, by its origin. Shares of the declared range."""

    outcome_variance: float
    shaped_variance: float
    live_groups: int
    by_form_alone: int
    """Informative groups whose rollouts differ in shaped parts and not in the outcome."""


def shaping(sample: RolloutSample) -> Shaping | None:
    """Outcome variance apart from shaped variance; `None` if the reward has no shaped part.

    The outcome is every function with a positive weight that does not judge form; form functions and penalties shape.
    Variance within tasks by `variance_parts`. A. Y. Ng, D. Harada, S. Russell, "Policy Invariance Under Reward
    Transformations", ICML 1999, show why it matters: a reward for intermediate steps can become the goal.
    """
    scores = (named for outcome in sample.scored for named in outcome.functions.items())
    if sample.range.span <= 0 or not any(_is_shaped(sample, name, score) for name, score in scores):
        return None
    parts = [
        [(_part(each, sample, shaped=False), _part(each, sample, shaped=True)) for each in outcomes]
        for outcomes in sample.by_task.values()
    ]
    live = [group for group in parts if len(distinct([sum(pair) for pair in group])) > 1]
    alone = [group for group in live if len(distinct([outcome for outcome, _ in group])) == 1]
    return Shaping(
        variance_parts([[outcome for outcome, _ in group] for group in parts]).within,
        variance_parts([[shaped for _, shaped in group] for group in parts]).within,
        len(live),
        len(alone),
    )


def _is_shaped(sample: RolloutSample, name: str, score: FunctionScore) -> bool:
    """Whether a function that counts judges form, or is a penalty."""
    return is_reward(score) and (name in sample.range.format_functions or score.weight < 0)


def _part(each: RolloutOutcome, sample: RolloutSample, *, shaped: bool) -> float:
    weighted = [
        score.weight * score.score
        for name, score in each.functions.items()
        if is_reward(score) and is_reward_number(score.score) and _is_shaped(sample, name, score) is shaped
    ]
    return math.fsum(weighted) / sample.range.span


@dataclass(frozen=True)
class TrainingAdvice:
    """One piece of advice, with its reason."""

    topic: Topic
    do: str
    because: str
    tasks: tuple[TaskId, ...] = ()
    """The tasks that it applies to, if not all."""


def advice(sample: RolloutSample, gate: DistributionGate) -> tuple[TrainingAdvice, ...]:
    """Training settings for these tasks and this policy, the most useful first.

    Nothing if no task has two scored rollouts.
    """
    if group_size_measured(sample, gate) < 2:
        return ()
    size, live = best_group_size(sample, gate)
    of_groups = [_group_size(sample, gate, size, live), _batch_size(size, live), *_filter(live)]
    return (*of_groups, *_curriculum(sample), *_tasks(sample))


def best_group_size(sample: RolloutSample, gate: DistributionGate) -> tuple[int, float]:
    """The group size to train with, and the predicted share of informative groups.

    It is the configured size, or the next usual one with enough informative groups on learnable
    tasks. Smaller ones are never advised: their advantages are noisier. Predicted by
    1 − Σ pᵥᴳ for each task (DAPO, arXiv 2503.14476; see `predicted_live`). Tasks with
    equal rewards in all rollouts are not informative at any size, so they do not need larger groups.
    """
    learnable = [values for values in sample.clusters if len(distinct(values)) > 1]
    everything = len(sample.clusters)
    if not learnable:
        return gate.group_size, 0.0
    for size in sorted({gate.group_size, *(size for size in GROUP_SIZES if size > gate.group_size)}):
        live = mean([predicted_live(values, size) for values in learnable])
        if live >= WANTED_LIVE:
            break
    return size, live * len(learnable) / everything


def _group_size(sample: RolloutSample, gate: DistributionGate, size: int, live: float) -> TrainingAdvice:
    now = mean([predicted_live(values, gate.group_size) for values in sample.clusters])
    if live == 0:
        return TrainingAdvice("group size", "no group size helps", "no task has two rollouts with different rewards")
    verb = "keep" if size == gate.group_size else "set"
    because = f"at {size}, {live:.0%} of groups are informative at the measured rates"
    if size != gate.group_size:
        because += f"; at {gate.group_size} it is {now:.0%}"
    return TrainingAdvice("group size", f"{verb} group_size = {size}", because)


def _batch_size(size: int, live: float) -> TrainingAdvice:
    if live == 0:
        none = "none: there is nothing to learn from"
        return TrainingAdvice("batch size", none, "every group would have zero variance")
    groups = math.ceil(LIVE_GROUPS_PER_STEP / live)
    return TrainingAdvice(
        "batch size",
        f"set batch_size = {groups * size} or more, a multiple of {size}",
        f"{groups} groups of {size} have about {LIVE_GROUPS_PER_STEP} informative ones: no step depends on few tasks",
    )


def _filter(live: float) -> Iterator[TrainingAdvice]:
    if 0 < live < 1 - WASTE:
        yield TrainingAdvice(
            "difficulty filter",
            f"drop zero-variance groups and refill: sample {1 / live:.2g} times as many groups as a step needs",
            f"{1 - live:.0%} of groups have zero variance and shrink the batch; DAPO does this (arXiv 2503.14476)",
        )


def _curriculum(sample: RolloutSample) -> Iterator[TrainingAdvice]:
    parts = variance_parts(sample.clusters)
    means = {task: mean(values) for task, values in sample.shares.items()}
    total = parts.within + parts.between
    easy = [task for task, value in means.items() if value >= EASY]
    hard = [task for task, value in means.items() if value <= HARD]
    if mean(list(means.values())) < HARD and len(hard) < len(means):
        rest = sorted((task for task in means if task not in hard), key=lambda task: -means[task])
        yield TrainingAdvice(
            "curriculum",
            f"begin with the {len(rest)} tasks that earn more than {HARD:g}, then add the rest",
            f"{len(hard)} of {len(means)} tasks earn {HARD:g} or less: most early groups would have zero variance",
            tuple(rest[:MOST_NAMED]),
        )
    elif easy and hard and total > 0 and parts.between / total > 0.3:
        yield TrainingAdvice(
            "curriculum",
            "weight tasks by difficulty: medium ones first, hard ones more as the reward rises",
            f"{parts.between / total:.0%} of the variance is between tasks; {len(easy)} of {len(means)} earn {EASY:g} "
            f"or more, {len(hard)} earn {HARD:g} or less",
        )


def _tasks(sample: RolloutSample) -> Iterator[TrainingAdvice]:
    """Tasks with equal rewards in all rollouts, with the uncertainty of that."""
    never: list[TaskId] = []
    always: list[TaskId] = []
    stuck: list[TaskId] = []
    for task, values in sample.shares.items():
        if len(values) < LEAST_GROUP or len(distinct(values)) > 1:
            continue
        (never if values[0] <= 1e-6 else always if values[0] >= 1 - 1e-6 else stuck).append(task)
    least = min((len(values) for values in sample.clusters if len(values) >= LEAST_GROUP), default=LEAST_GROUP)
    unseen = wilson_of(0, least, sample.confidence).high
    doubt = f"{least} rollouts do not exclude a rate of {unseen:.0%}; run more rollouts before you drop them"
    if never:
        yield _about("rewrite or drop", never, f"zero reward in every rollout: broken or too hard; {doubt}")
    if always:
        yield _about("drop", always, f"the maximum in every rollout teaches nothing; {doubt}")
    if stuck:
        yield _about("inspect", stuck, "the same partial reward in every rollout: the rest may be unreachable")


def _about(do: str, tasks: list[TaskId], because: str) -> TrainingAdvice:
    tasks = sorted(tasks, key=lambda task: (0, task, "") if isinstance(task, int) else (1, 0, task))
    named = ", ".join(map(str, tasks[:MOST_NAMED])) + (" …" if len(tasks) > MOST_NAMED else "")
    noun = "task" if len(tasks) == 1 else "tasks"
    return TrainingAdvice("tasks", f"{do} {noun} {named}", because, tuple(tasks))
