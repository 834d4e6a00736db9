"""Rules of the distribution gate about rollouts that are cut off, late or broken, and about drift."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops.rules.distribution.learnable import interval_text, of_sample, undecided
from envops.rules.engine import Found, Subject, rule
from envops.statistics.drift import drift

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.statistics.drift import Drifted
    from envops.statistics.outcomes import Sample


@rule("DST011", gate="distribution")
def rollouts_are_truncated(subject: Subject) -> Iterator[Found]:
    """Too many rollouts are truncated.

    What: The share of rollouts that a token or context limit cut off is below `gates.distribution.max_truncated`,
        and so is its whole Wilson interval.
    Why: A truncated reply is scored for what is missing; training then teaches to be short and not to be right.
    Fix: Raise `max_tokens` or the context length, or ask for shorter answers.
    """
    yield from undecided(subject, "DST011")


@rule("DST012", gate="distribution")
def rollouts_are_late(subject: Subject) -> Iterator[Found]:
    """Too many rollouts run out of time.

    What: The share of rollouts that run out of time is below `gates.distribution.max_timeouts`, and so is its
        whole Wilson interval.
    Why: What is late is long and hard, so what is left is not what was asked for; and verifiers rewards it with 0.
    Fix: Look for what waits: a tool, a sandbox, a reward; then raise the time limit.
    """
    yield from undecided(subject, "DST012")


@rule("DST013", gate="distribution")
def rollouts_break(subject: Subject) -> Iterator[Found]:
    """Too many rollouts break in the environment.

    What: The share of rollouts that end in an error of the environment or its harness is below
        `gates.distribution.max_errors`, and so is its whole Wilson interval. Provider and infrastructure are
        left out: see DST018.
    Why: Each is a task that cannot be learnt, and its reward of 0 is nobody's fault.
    Fix: Mend the errors that the smoke gate names.
    """
    yield from undecided(subject, "DST013")


@rule("DST018", gate="distribution", severity="warning")
def infrastructure_loses_rollouts(subject: Subject) -> Iterator[Found]:
    """Rollouts are lost to the provider or the infrastructure.

    What: No rollout ends in an error of the provider or the infrastructure. They lower the coverage and count
        as no error of the environment.
    Why: They are nobody's fault here, yet what is lost may not be lost by chance.
    Fix: Run again; where rate limits are the cause, lower the concurrency.
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
    """The same policy earns less than the recorded baseline says.

    What: The mean difference to the recorded baseline, paired by task, is not surely below 0; a drop of
        `gates.distribution.max_drop` is ruled out. Tasks are matched by content.
    Why: Same policy and same tasks, but another reward: the reward, the prompt or a dependency changed.
    Fix: Compare the rewards with `nox -s rewards -- diff NAME --against REV`; if the change is meant, record anew with
        `nox -s record`.
    """
    for sample, found in _drifts(subject):
        if found.answer in ("worse", "inconclusive"):
            inconclusive = found.answer == "inconclusive"
            yield Found(
                f"{sample.policy} earns {found.estimate.value:+.3f} of the baseline, {_where(sample, found)}"
                + (f"; {found.more}" if inconclusive else ""),
                of_sample(sample) | {"matched": found.tasks},
                inconclusive=inconclusive,
            )


@rule("DST017", gate="distribution", severity="warning")
def reward_is_better_than_the_baseline(subject: Subject) -> Iterator[Found]:
    """The same policy earns more than the recorded baseline says.

    What: The mean difference to the recorded baseline, paired by task, is not surely above 0.
    Why: A policy does not learn between two runs: what pays more today pays for something new.
    Fix: Compare the rewards with `nox -s rewards -- diff NAME --against REV`; if the change is meant, record anew with
        `nox -s record`.
    """
    for sample, found in _drifts(subject):
        if found.answer == "better":
            yield Found(
                f"{sample.policy} earns {found.estimate.value:+.3f} of the baseline, {_where(sample, found)}",
                of_sample(sample) | {"matched": found.tasks},
            )


def _drifts(subject: Subject) -> Iterator[tuple[Sample, Drifted]]:
    if subject.baseline is None:
        return
    margin = subject.entry.gates.distribution.max_drop
    for sample in subject.samples:
        found = drift(sample, subject.facts, subject.baseline, margin)
        if found is not None:
            yield sample, found


def _where(sample: Sample, found: Drifted) -> str:
    return f"paired over {found.tasks} tasks: {interval_text(found.estimate, sample)}"
