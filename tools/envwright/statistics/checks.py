"""Checks of the distribution gate: a measure with its interval, compared with a bound.

PASS when the whole interval is on the right side of the bound, FAIL when the whole of it is on
the wrong side, INCONCLUSIVE when the bound lies inside. Then the check estimates how many more
rollouts would decide. A lucky sample passes as rarely as an unlucky one fails.

A group in which all rewards are equal has zero variance: every advantage is 0, so training learns nothing from it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from envwright.facts.reward_numbers import is_reward_number
from envwright.statistics.intervals import (
    Estimate,
    MeasuredValue,
    clustered_deviation,
    clustered_mean,
    clustered_share,
    fold_that_decides,
    share_of_tasks,
)
from envwright.statistics.outcomes import grouped

if TYPE_CHECKING:
    from envwright.declarations.registry import DistributionGate
    from envwright.statistics.outcomes import RolloutOutcome, RolloutSample, TaskId

CheckAnswer = Literal["pass", "fail", "inconclusive"]
MIN_COVERAGE = 0.9
"""The least share of rollouts that must have a reward."""
DIGITS = 6
"""The number of decimals to which equal rewards agree."""


@dataclass(frozen=True)
class MeasuredCheck(MeasuredValue):
    """One measure against one bound."""

    rule: str
    name: str
    bound: float
    above: bool
    """Whether the measure has to be above the bound."""
    needed: str
    """The bound in words."""
    answer: CheckAnswer
    more: str = ""
    """The data that would decide an undecided check."""
    count: bool = False
    """Whether it counts rollouts: the bound itself suffices, and there is no interval."""


@dataclass(frozen=True)
class UnjudgedCheck:
    """A check of DST002 to DST005 without a measure, and why."""

    rule: str
    name: str
    reason: str


def side(estimate: Estimate, bound: float, *, above: bool) -> CheckAnswer:
    """The side of the bound on which the whole interval lies."""
    right = estimate.low > bound if above else estimate.high < bound
    wrong = estimate.high <= bound if above else estimate.low >= bound
    return "pass" if right else "fail" if wrong else "inconclusive"


def check(
    rule: str,
    name: str,
    estimate: Estimate,
    bound: float,
    sample: RolloutSample,
    *,
    above: bool,
    of: Mapping[TaskId, Sequence[RolloutOutcome]] | None = None,
) -> MeasuredCheck:
    """A share, mean or deviation against its bound; a bound at the end of the possible range requires nothing.

    `of` are the rollouts that were measured, those with a reward by default.
    """
    asks_nothing = bound <= 0 if above else bound >= 1
    answer = "pass" if asks_nothing else side(estimate, bound, above=above)
    more = _more_needed(estimate, bound, sample, of or sample.by_task) if answer == "inconclusive" else ""
    needed = f"{'>' if above else '<'} {bound:g}"
    return MeasuredCheck(estimate.value, estimate.low, estimate.high, rule, name, bound, above, needed, answer, more)


def _more_needed(
    estimate: Estimate, bound: float, sample: RolloutSample, measured: Mapping[TaskId, Sequence[RolloutOutcome]]
) -> str:
    """The number of further rollouts that would separate the interval from the bound."""
    fold = fold_that_decides(estimate, bound)
    tasks, count = len(measured), sum(map(len, measured.values()))
    if fold is None and tasks < 2 and sample.could_have(2):
        return "rollouts of more tasks would decide; with one task there is no interval"
    if fold is None:
        return "it is exactly on the bound: no feasible number of rollouts would decide"
    more_tasks = max(1, math.ceil(tasks * (fold - 1)))
    if not sample.could_have(tasks + more_tasks):
        every = len(sample.all_tasks)
        each = math.ceil(max(count / tasks, count * fold / every))
        return f"about {each:,} rollouts of each task (-n {every} -r {each}) would decide at the same rates"
    rollouts = math.ceil(more_tasks * count / tasks)
    return f"about {rollouts:,} more rollouts ({more_tasks:,} more tasks) would decide at the same rates"


def rollouts_are_enough(sample: RolloutSample, gate: DistributionGate) -> MeasuredCheck:
    count, least = float(sample.count), gate.min_rollouts
    answer: CheckAnswer = "pass" if sample.count >= least else "inconclusive"
    more = "" if answer == "pass" else f"{least - sample.count} more rollouts with a reward are needed"
    return MeasuredCheck(
        count, count, count, "DST001", "scored rollouts", float(least), True, f"≥ {least:g}", answer, more, count=True
    )


def format_is_met(sample: RolloutSample, gate: DistributionGate) -> list[MeasuredCheck]:
    """One check for each function that judges form and has scores, those of weight 0 too."""
    found = []
    for function in sample.range.form_judges:
        scored = [
            [outcome.functions[function].score for outcome in outcomes if function in outcome.functions]
            for outcomes in sample.by_task.values()
        ]
        scores = [[score for score in task if is_reward_number(score)] for task in scored]
        clusters = [task for task in scores if task]
        if clusters:
            estimate = clustered_mean(sample.draws(clusters), sample.confidence)
            found.append(check("DST005", f"mean of {function}", estimate, gate.min_format, sample, above=True))
    return found


def group_size_measured(sample: RolloutSample, gate: DistributionGate) -> int:
    """The size of the groups that can be judged: the configured one, or what most tasks have rollouts for.

    Smaller groups have zero variance more often, so their share is a lower bound for larger ones.
    """
    counts = sorted((len(values) for values in sample.clusters), reverse=True)
    typical = counts[(len(counts) - 1) // 2] if counts else 0
    return min(gate.group_size, typical)


def groups_are_live(sample: RolloutSample, gate: DistributionGate) -> MeasuredCheck | None:
    """The share of informative groups; groups smaller than configured can pass and not fail.

    `None` if no task has two rollouts.
    """
    size = group_size_measured(sample, gate)
    if size < 2:
        return None
    tasks = [values for values in sample.clusters if len(values) >= size]
    groups = sum(len(values) // size for values in tasks) if sample.has_every_task else 0
    estimate = share_of_tasks([chance_of_live_group(values, size) for values in tasks], sample.confidence, groups)
    name = f"share of informative groups of {size}"
    found = check("DST010", name, estimate, gate.min_live_groups, sample, above=True)
    if size < gate.group_size and found.answer == "fail":
        more = f"groups of {size} are a lower bound: {gate.group_size} rollouts of each task would decide"
        return replace(found, answer="inconclusive", more=more)
    return found


def incidents(sample: RolloutSample, gate: DistributionGate) -> list[MeasuredCheck]:
    """The shares of truncated, late and failed rollouts, without infrastructure failures."""
    own = [each for each in sample.outcomes if each.error not in ("infrastructure", "provider")]
    kinds: Sequence[tuple[str, str, float, Callable[[RolloutOutcome], bool]]] = (
        ("DST011", "truncated rollouts", gate.max_truncated, lambda each: each.truncated),
        ("DST012", "rollouts out of time", gate.max_timeouts, lambda each: each.error == "timeout"),
        ("DST013", "rollouts that break", gate.max_errors, lambda each: each.error in ("environment", "harness")),
    )
    found, tasks = [], grouped(own)
    for rule, name, bound, happened in kinds if own else ():
        hits = [[happened(each) for each in group] for group in tasks.values()]
        estimate = clustered_share(sample.draws(hits), sample.confidence)
        found.append(check(rule, f"share of {name}", estimate, bound, sample, above=False, of=tasks))
    return found


def checks_of(sample: RolloutSample, gate: DistributionGate) -> list[MeasuredCheck]:
    """Every check of a sample, in the order of their rules; those of rewards and groups only if any has a reward."""
    found = [rollouts_are_enough(sample, gate)]
    if sample.clusters:
        draws = sample.draws(sample.clusters)
        mean = clustered_mean(draws, sample.confidence)
        deviation = clustered_deviation(draws, sample.confidence)
        found += [
            check("DST002", "mean reward", mean, gate.min_mean, sample, above=True),
            check("DST003", "mean reward", mean, gate.max_mean, sample, above=False),
            check("DST004", "standard deviation of the reward", deviation, gate.min_std, sample, above=True),
        ]
    found += format_is_met(sample, gate)
    if sample.clusters and (live := groups_are_live(sample, gate)) is not None:
        found.append(live)
    return found + incidents(sample, gate)


def unjudged_checks(sample: RolloutSample, gate: DistributionGate) -> list[UnjudgedCheck]:
    """The checks of DST002 to DST005 that a sample leaves without a measure."""
    found = []
    if not sample.clusters:
        empty = "the declared range is empty" if sample.range.span <= 0 else "no rollout has a reward"
        names = {"DST002": "mean reward", "DST003": "mean reward", "DST004": "standard deviation of the reward"}
        found += [UnjudgedCheck(rule, name, empty) for rule, name in names.items()]
    if not format_is_met(sample, gate):
        functions = sample.range.form_judges
        none = "no function is declared or named as one that measures the format"
        reason = f"no rollout has a score of {', '.join(functions)}" if functions else none
        found.append(UnjudgedCheck("DST005", "format", reason))
    return found


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
