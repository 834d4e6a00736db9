"""Rules of the distribution gate: can a model learn from these rewards?

The gate uses rollouts of policies whose replies vary as a model's do: `blend`, or models of the given results. Each
policy is judged separately. Rewards are shares of the declared range, and every check uses an interval: see
`envwright.statistics.checks` and docs/distribution.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envwright.rules.engine import Found, Subject, rule
from envwright.rules.evidence import Evidence, described, of_failure
from envwright.rules.failures import own_failure
from envwright.statistics.checks import MIN_COVERAGE, MeasuredCheck

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.repository.registry import DistributionGate
    from envwright.statistics.intervals import Estimate
    from envwright.statistics.outcomes import RolloutSample


def undecided(subject: Subject, rule: str) -> Iterator[Found]:
    """One finding for each check of each sample that belongs to a rule and does not pass."""
    for sample, measured in zip(subject.samples, subject.distributions, strict=True):
        for check in measured.checks:
            if check.rule == rule and check.answer != "pass":
                yield _found(check, sample, subject.entry.gates.distribution)


def _found(check: MeasuredCheck, sample: RolloutSample, gate: DistributionGate) -> Found:
    thin = sample.count < gate.min_rollouts or sample.coverage < MIN_COVERAGE
    inconclusive = check.answer == "inconclusive" or thin
    message = (
        f"{check.name} of {sample.policy} is {interval_text(check.estimate, sample)}, required is {check.needed} "
        f"({sample.count} rollouts of {len(sample.by_task)} tasks)"
    )
    if inconclusive:
        message += f"; {check.more or 'too few rollouts have a reward to fail the gate'}"
    return Found(message, of_check(check, sample), inconclusive=inconclusive)


def interval_text(estimate: Estimate, sample: RolloutSample) -> str:
    """A number with its interval."""
    return f"{estimate.value:.3f} ({sample.confidence:.0%} interval {estimate.low:.3f} to {estimate.high:.3f})"


def of_check(check: MeasuredCheck, sample: RolloutSample) -> Evidence:
    """The evidence of a check: the measure and its sample."""
    interval = f"{check.estimate.low:.4g} to {check.estimate.high:.4g}"
    seen = of_sample(sample, check.needed, measured=check.estimate.value, interval=interval)
    return replace(seen, answer=check.answer, needed=check.more)


def of_sample(sample: RolloutSample, expected: Any = None, **details: Any) -> Evidence:
    """The evidence of a sample: the number of rollouts, their rewards, and the rule's additions."""
    about = {"policy": sample.policy, "tasks": len(sample.by_task), "coverage": sample.coverage}
    return Evidence(
        count=len(sample.scored),
        of=sample.attempted,
        expected=expected,
        details=about | {"rewards": sample.rewards()} | details,
    )


@rule("DST001", gate="distribution")
def too_few_rollouts(subject: Subject) -> Iterator[Found]:
    """There are too few rollouts.

    What: At least `gates.distribution.min_rollouts` rollouts have a reward. Fewer are inconclusive, never a failure.
    Why: A mean of few rollouts is luck.
    Fix: Raise `gates.distribution.tasks` or `gates.distribution.group_size` in registry.yaml, or add more results.
    """
    gate = subject.entry.gates.distribution
    if "distribution" not in subject.facts.completed:
        return
    if not subject.samples:
        yield Found(
            f"there are no rollouts of a policy whose replies vary, required are {gate.min_rollouts}",
            Evidence(count=0, expected=gate.min_rollouts),
            inconclusive=True,
        )
    for sample in subject.samples:
        if sample.count < gate.min_rollouts:
            empty = "; the declared range is empty" if subject.range.span <= 0 else ""
            yield Found(
                f"{sample.count} rollouts of {sample.policy} have a reward, required are {gate.min_rollouts}{empty}; "
                f"{gate.min_rollouts - sample.count} more are needed",
                of_sample(sample, gate.min_rollouts),
                inconclusive=True,
            )


@rule("DST002", gate="distribution")
def mean_is_too_low(subject: Subject) -> Iterator[Found]:
    """The mean reward is too low to learn from.

    What: The mean reward, as a share of the declared range, and its whole interval, clustered by task, are above
        `gates.distribution.min_mean`.
    Why: Training has no signal. If almost nothing is rewarded, groups have no variance.
    Fix: Offer easier tasks or partial credit, or train a stronger model.
    """
    yield from undecided(subject, "DST002")


@rule("DST003", gate="distribution")
def mean_is_too_high(subject: Subject) -> Iterator[Found]:
    """The mean reward is too high to learn from.

    What: The mean reward, as a share of the declared range, and its whole interval, clustered by task, are below
        `gates.distribution.max_mean`.
    Why: Training has nothing left to learn. Or the reward is too easy to earn.
    Fix: Offer harder tasks, or look for replies that are rewarded by mistake.
    """
    yield from undecided(subject, "DST003")


@rule("DST004", gate="distribution")
def rewards_hardly_vary(subject: Subject) -> Iterator[Found]:
    """Rewards hardly vary.

    What: The standard deviation of rewards, as a share of the declared range, and its whole interval are above
        `gates.distribution.min_std`.
    Why: Advantages are differences of rewards. Without differences there is no gradient.
    Fix: Check that the reward reads the reply, and that tasks differ in difficulty.
    """
    yield from undecided(subject, "DST004")


@rule("DST005", gate="distribution")
def format_is_rarely_met(subject: Subject) -> Iterator[Found]:
    """Replies rarely have the right format.

    What: The mean score of each format function, if there is one, and its whole interval, clustered by task, are
        above `gates.distribution.min_format`. Metrics of weight 0 with `format` in their name count too, unless
        `[tool.envwright.reward] format` names others.
    Why: Right answers in the wrong format earn nothing. A model that rarely uses the right format is rarely rewarded.
    Fix: Show the format in the prompt with an example, or accept more formats.
    """
    yield from undecided(subject, "DST005")


@rule("DST006", gate="distribution")
def coverage_is_low(subject: Subject) -> Iterator[Found]:
    """Too many rollouts have no reward.

    What: At least 90 % of the rollouts have a reward. Fewer are inconclusive: a missing reward is not zero. Rollouts
        lost to the provider or the infrastructure are counted separately.
    Why: The remaining rollouts are a biased sample. Long and hard ones time out first.
    Fix: Fix the failed and late rollouts that the smoke gate reports, then run again.
    """
    for sample in subject.samples:
        if sample.coverage < MIN_COVERAGE:
            lost = dict(sorted(sample.errors.items()))
            unnamed = sample.attempted - len(sample.scored) - sum(lost.values())
            yield Found(
                f"{len(sample.scored)} of {sample.attempted} rollouts of {sample.policy} have a reward, "
                f"coverage {sample.coverage:.2f} of {MIN_COVERAGE:g}; lost to "
                + ", ".join(f"{name} {count}" for name, count in [*lost.items(), ("no reward", unnamed)] if count),
                of_sample(sample, f">= {MIN_COVERAGE:g}", lost=lost | {"no reward": unnamed}),
                inconclusive=True,
            )


@rule("DST007", gate="distribution")
def distribution_evaluation_fails(subject: Subject) -> Iterator[Found]:
    """The evaluation of the distribution gate fails as a whole.

    What: The evaluation for the distribution gate starts and ends.
    Why: Nothing is proven without a measurement.
    Fix: Fix the reported line. The traceback is in the evidence.
    """
    failure = own_failure(subject, "distribution")
    if failure is not None:
        yield Found(
            f"the evaluation of the distribution gate failed: {described(failure)}", of_failure(failure), failure.place
        )
