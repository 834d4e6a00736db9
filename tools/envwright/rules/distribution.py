"""Rules of the distribution gate: can a model learn from these rewards, in groups that differ and rollouts that end?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envwright.rules.engine import Found, Subject, rule
from envwright.rules.evidence import Evidence
from envwright.rules.failures import stage_fails
from envwright.rules.rewards.time import left_out
from envwright.statistics.baseline import drift
from envwright.statistics.intervals import wilson_of
from envwright.statistics.measures import MIN_COVERAGE, MeasuredCheck

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.declarations.registry import DistributionGate
    from envwright.statistics.intervals import MeasuredValue
    from envwright.statistics.outcomes import RolloutSample

GOOD_START = (0.15, 0.35)
ACCEPTABLE_START = (0.05, 0.45)
MOST_BY_FORM = 0.5
"""The share of the informative groups above which the model learns form."""


def undecided(subject: Subject, rule: str) -> Iterator[Found]:
    """One finding for each check of each sample that belongs to a rule and does not pass."""
    for sample, measured in zip(subject.samples, subject.distributions, strict=True):
        for check in measured.checks:
            if check.rule == rule and check.answer != "pass":
                yield _finding(check, sample, subject.entry.gates.distribution)


def _finding(check: MeasuredCheck, sample: RolloutSample, gate: DistributionGate) -> Found:
    thin = sample.count < gate.min_rollouts or sample.coverage < MIN_COVERAGE
    inconclusive = check.answer == "inconclusive" or thin
    message = (
        f"{check.name} of {sample.policy} is {interval_text(check, sample)}, required is {check.needed} "
        f"({sample.count} rollouts of {len(sample.by_task)} tasks)"
    )
    if inconclusive:
        message += f"; {check.more or 'too few rollouts have a reward to fail the gate'}"
    interval = f"{check.low:.4g} to {check.high:.4g}"
    seen = of_sample(sample, check.needed, measured=check.value, interval=interval)
    return Found(message, replace(seen, answer=check.answer, needed=check.more), inconclusive=inconclusive)


def interval_text(estimate: MeasuredValue, sample: RolloutSample) -> str:
    return f"{estimate.value:.3f} ({sample.confidence:.0%} interval {estimate.low:.3f} to {estimate.high:.3f})"


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
    yield from stage_fails(subject, "distribution", "the evaluation of the distribution gate")


@rule("DST010", gate="distribution")
def groups_have_zero_variance(subject: Subject) -> Iterator[Found]:
    """Too many groups have zero variance.

    What: The share of informative groups (groups of `gates.distribution.group_size` rollouts whose rewards are not
        all equal) and its whole Wilson interval are above `gates.distribution.min_live_groups`. With more rollouts of
        a task it is the mean over all groups that could be drawn from them. With fewer it is a lower bound, which can
        pass and not fail.
    Why: Rollouts are paid for and teach nothing. Advantages of a zero-variance group are all 0 (DAPO, arXiv
        2503.14476).
    Fix: Filter tasks that are always or never solved, give partial credit, or enlarge the group.
    """
    yield from undecided(subject, "DST010")


@rule("DST014", gate="distribution", severity="warning")
def groups_differ_in_form_alone(subject: Subject) -> Iterator[Found]:
    """Most groups differ in form and penalties only.

    What: In at least half of the informative groups the outcome differs, and not only the scores of form functions and
    penalties. Reported if the whole Wilson interval contradicts this.
    Why: A trainer scales small differences up. If the outcome is equal, form becomes the goal.
    Fix: Reward form less often, for example only together with the outcome, or offer tasks on which outcomes differ.
    """
    for sample, measured in zip(subject.samples, subject.distributions, strict=True):
        found = measured.shaping
        if found is None or not found.live_groups:
            continue
        share = wilson_of(found.by_form_alone, found.live_groups, sample.confidence)
        if share.low > MOST_BY_FORM:
            yield Found(
                f"{found.by_form_alone} of {found.live_groups} informative groups of {sample.policy} differ in form "
                f"and penalties only: variance within groups {found.shaped_variance:.4f} from these, "
                f"{found.outcome_variance:.4f} from the outcome",
                of_sample(sample, interval=f"{share.low:.3f} to {share.high:.3f}"),
            )


@rule("DST015", gate="distribution", severity="advice")
def start_is_outside_the_good_range(subject: Subject) -> Iterator[Found]:
    """The model's mean reward is outside the range that trains well.

    What: The mean reward of a model, as a share of the declared range, is between 0.15 and 0.35. From 0.05 to 0.45 is
        acceptable. Scripted policies are skipped: they do not measure difficulty.
    Why: Below this range there is little to reinforce, above it little to gain (Prime's lab cookbook).
    Fix: Choose easier or harder tasks for this model, or another model. docs/distribution.md has more options.
    """
    for sample, measured in zip(subject.samples, subject.distributions, strict=True):
        estimate = measured.mean
        if sample.is_scripted or estimate is None:
            continue
        if GOOD_START[0] <= estimate.value <= GOOD_START[1]:
            continue
        acceptable = ACCEPTABLE_START[0] <= estimate.value <= ACCEPTABLE_START[1]
        reached = estimate.low <= GOOD_START[1] and estimate.high >= GOOD_START[0]
        yield Found(
            f"{sample.policy} starts at {interval_text(estimate, sample)}: "
            + ("acceptable" if acceptable else "too low" if estimate.value < GOOD_START[0] else "too high")
            + ", good is 0.15 to 0.35"
            + (", which the interval includes" if reached else ""),
            of_sample(sample, "0.15 to 0.35"),
        )


@rule("DST011", gate="distribution")
def rollouts_are_truncated(subject: Subject) -> Iterator[Found]:
    """Too many rollouts are truncated.

    What: The share of rollouts that a token or context limit cut off and its whole Wilson interval are below
        `gates.distribution.max_truncated`.
    Why: A truncated reply is scored without its end. Training then teaches to be short and not to be right.
    Fix: Raise `max_tokens` or the context length, or request shorter answers.
    """
    yield from undecided(subject, "DST011")


@rule("DST012", gate="distribution")
def rollouts_are_late(subject: Subject) -> Iterator[Found]:
    """Too many rollouts time out.

    What: The share of rollouts that time out and its whole Wilson interval are below
        `gates.distribution.max_timeouts`.
    Why: The remaining rollouts are a biased sample. Long and hard ones time out first, and verifiers gives them reward
        0.
    Fix: Find the cause of the wait: a tool, a sandbox, a reward. Then raise the time limit.
    """
    yield from undecided(subject, "DST012")


@rule("DST013", gate="distribution")
def rollouts_break(subject: Subject) -> Iterator[Found]:
    """Too many rollouts end in an error of the environment.

    What: The share of rollouts that end in an error of the environment or its harness and its whole Wilson interval
        are below `gates.distribution.max_errors`. Provider and infrastructure are excluded: see DST018.
    Why: These tasks cannot be learned. Their reward of 0 is undeserved.
    Fix: Fix the errors that the smoke gate reports.
    """
    yield from undecided(subject, "DST013")


@rule("DST018", gate="distribution", severity="warning")
def infrastructure_loses_rollouts(subject: Subject) -> Iterator[Found]:
    """Rollouts are lost to the provider or the infrastructure.

    What: No rollout ends in an error of the provider or the infrastructure. These lower the coverage and do not count
        as errors of the environment.
    Why: The environment is not at fault, but the remaining rollouts may be a biased sample.
    Fix: Run again. If rate limits are the cause, lower the concurrency.
    """
    for sample in subject.samples:
        lost = sample.errors["infrastructure"] + sample.errors["provider"]
        if lost:
            yield Found(
                f"{lost} of {sample.attempted} rollouts of {sample.policy} are lost to the provider "
                f"({sample.errors['provider']}) or the infrastructure ({sample.errors['infrastructure']})",
                of_sample(sample),
            )


def _drifted(subject: Subject, *answers: str) -> Iterator[Found]:
    """The samples whose difference to the recorded baseline has one of these answers."""
    if subject.baseline is None:
        return
    for sample in subject.samples:
        found = drift(sample, subject.facts, subject.baseline, subject.entry.gates.distribution.max_drop)
        if found is not None and found.answer in answers:
            inconclusive = found.answer == "inconclusive"
            yield Found(
                f"{sample.policy} earns {found.estimate.value:+.3f} against the baseline, "
                f"paired over {found.tasks} tasks: {interval_text(found.estimate, sample)}"
                + (f"; {found.more}" if inconclusive else ""),
                of_sample(sample, matched=found.tasks),
                inconclusive=inconclusive,
            )


@rule("DST016", gate="distribution")
def reward_is_worse_than_the_baseline(subject: Subject) -> Iterator[Found]:
    """The same policy earns less than the recorded baseline.

    What: The mean difference to the recorded baseline, paired by task, is not significantly below 0, and a drop of
        `gates.distribution.max_drop` is ruled out. Tasks are matched by content.
    Why: Results before and after cannot be compared. Same policy and same tasks, but another reward: the reward, the
        prompt or a dependency changed.
    Fix: Compare the rewards with `envwright rewards diff NAME --against REV`. If the change is intended, record
        again with `envwright record`.
    """
    yield from _drifted(subject, "worse", "inconclusive")


@rule("DST017", gate="distribution", severity="warning")
def reward_is_better_than_the_baseline(subject: Subject) -> Iterator[Found]:
    """The same policy earns more than the recorded baseline.

    What: The mean difference to the recorded baseline, paired by task, is not significantly above 0.
    Why: A policy does not learn between two runs. If it earns more today, the reward changed.
    Fix: Compare the rewards with `envwright rewards diff NAME --against REV`. If the change is intended, record
        again with `envwright record`.
    """
    yield from _drifted(subject, "better")


@rule("DST019", gate="distribution", severity="advice")
def budget_left_rollouts_out(subject: Subject) -> Iterator[Found]:
    """The budget did not suffice for all rollouts of the distribution evaluation.

    What: All rollouts of the distribution evaluation fit into `gates.budget`, 120 s by default. If they are slow, fewer
    tasks are played.
    Why: With fewer rollouts less is proven, and below `min_rollouts` nothing.
    Fix: Make the environment faster, or raise `gates.budget` in registry.yaml as far as the finding proposes.
    """
    cuts = [cut for cut in subject.facts.cuts if cut.stage == "distribution"]
    if cuts:
        undecided = any(check.answer == "inconclusive" for one in subject.distributions for check in one.checks)
        yield left_out(subject, cuts, inconclusive=undecided)
