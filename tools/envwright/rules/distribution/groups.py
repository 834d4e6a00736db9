"""Rules of the distribution gate about groups, from which a group-relative trainer learns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envwright.rules.distribution.learnable import interval_text, of_sample, undecided
from envwright.rules.engine import Found, Subject, rule
from envwright.statistics.clusters import clustered_mean
from envwright.statistics.intervals import wilson_of

if TYPE_CHECKING:
    from collections.abc import Iterator

GOOD_START = (0.15, 0.35)
ACCEPTABLE_START = (0.05, 0.45)
MOST_BY_FORM = 0.5
"""The share of the informative groups above which the model learns form."""


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
    for sample in subject.samples:
        if sample.is_scripted or not sample.clusters:
            continue
        estimate = clustered_mean(sample.clusters, sample.confidence)
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
