"""Rules of the distribution gate about truncated, late and failed rollouts, and about drift."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envwright.rules.distribution.learnable import interval_text, of_sample, undecided
from envwright.rules.engine import Found, Subject, rule
from envwright.rules.rewards.time import left_out
from envwright.statistics.baseline import drift

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.statistics.baseline import Drifted
    from envwright.statistics.outcomes import RolloutSample


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
    for sample, found in _drifts(subject):
        if found.answer in ("worse", "inconclusive"):
            inconclusive = found.answer == "inconclusive"
            yield Found(
                f"{sample.policy} earns {found.estimate.value:+.3f} against the baseline, {_where(sample, found)}"
                + (f"; {found.more}" if inconclusive else ""),
                of_sample(sample, matched=found.tasks),
                inconclusive=inconclusive,
            )


@rule("DST017", gate="distribution", severity="warning")
def reward_is_better_than_the_baseline(subject: Subject) -> Iterator[Found]:
    """The same policy earns more than the recorded baseline.

    What: The mean difference to the recorded baseline, paired by task, is not significantly above 0.
    Why: A policy does not learn between two runs. If it earns more today, the reward changed.
    Fix: Compare the rewards with `envwright rewards diff NAME --against REV`. If the change is intended, record
        again with `envwright record`.
    """
    for sample, found in _drifts(subject):
        if found.answer == "better":
            yield Found(
                f"{sample.policy} earns {found.estimate.value:+.3f} against the baseline, {_where(sample, found)}",
                of_sample(sample, matched=found.tasks),
            )


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


def _drifts(subject: Subject) -> Iterator[tuple[RolloutSample, Drifted]]:
    if subject.baseline is None:
        return
    margin = subject.entry.gates.distribution.max_drop
    for sample in subject.samples:
        found = drift(sample, subject.facts, subject.baseline, margin)
        if found is not None:
            yield sample, found


def _where(sample: RolloutSample, found: Drifted) -> str:
    return f"paired over {found.tasks} tasks: {interval_text(found.estimate, sample)}"
