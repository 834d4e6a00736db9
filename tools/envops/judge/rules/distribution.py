"""Rules of the distribution gate: can one learn from these rewards?

Judged are rollouts of policies whose replies vary as a model's do: `blend`, or models whose
results were handed in; each on its own. Rewards count as a share of the declared range.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envops.judge.engine import Found, Subject, rule
from envops.judge.evidence import described, number, of_failure
from envops.judge.failures import own_failure
from envops.judge.gold import is_reward_number
from envops.judge.statistics import coverage, mean, standard_deviation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from envops.declare.registry import DistributionGate
    from envops.observe.facts import Rollout

MIN_COVERAGE = 0.9
"""The least share of rollouts that must have a reward."""
FIXED_POLICIES = {"oracle", "nop", "echo", "near-miss", "format-only", "hedge", "override", "case"}
"""Scripted policies that say one thing: their rewards are no distribution."""


@dataclass(frozen=True)
class Sample:
    """The rollouts of one policy; those without a reward only lower the coverage."""

    policy: str
    attempted: int
    scored: tuple[Rollout, ...]
    shares: tuple[float, ...]
    """Rewards as a share of the declared range."""

    @property
    def coverage(self) -> float:
        return coverage(len(self.scored), self.attempted)

    def is_thin(self, gate: DistributionGate) -> bool:
        """Whether there is too little to call anything a failure."""
        return len(self.shares) < gate.min_rollouts or self.coverage < MIN_COVERAGE

    def rewards(self) -> dict[str, int]:
        """How often each reward came, the most frequent first."""
        return {number(reward): count for reward, count in Counter(each.reward for each in self.scored).most_common(10)}


def samples(subject: Subject) -> list[Sample]:
    """What there is to judge, policy by policy."""
    declared = subject.range
    by_policy: dict[str, list[Rollout]] = defaultdict(list)
    for each in subject.facts.rollouts:
        if each.policy not in FIXED_POLICIES:
            by_policy[each.policy].append(each)
    found = []
    for policy, attempted in by_policy.items():
        scored = tuple(each for each in attempted if _is_scored(each))
        rewards = [each.reward for each in scored if each.reward is not None]
        shares = tuple(declared.share(reward) for reward in rewards) if declared.span > 0 else ()
        found.append(Sample(policy, len(attempted), scored, shares))
    return found


def _is_scored(rollout: Rollout) -> bool:
    """v0 gives a failed rollout, and both generations one that ran out of time, a 0 that nobody earned."""
    return rollout.failure is None and not rollout.timed_out and is_reward_number(rollout.reward)


def _bounded(
    subject: Subject, name: str, measure: Callable[[Sample], float | None], wrong: Callable[[float], bool], bound: str
) -> Iterator[Found]:
    """One finding for each sample whose measure is on the wrong side of its bound."""
    gate = subject.entry.gates.distribution
    for sample in samples(subject):
        value = measure(sample) if sample.shares else None
        if value is not None and wrong(value):
            yield Found(
                f"{name} of {sample.policy} is {value:.3f} over {len(sample.shares)} rollouts, needed is {bound}",
                _evidence(sample) | {"measured": value, "expected": bound},
                inconclusive=sample.is_thin(gate),
            )


def _evidence(sample: Sample) -> dict[str, Any]:
    return {
        "policy": sample.policy,
        "count": len(sample.scored),
        "of": sample.attempted,
        "coverage": sample.coverage,
        "rewards": sample.rewards(),
    }


@rule("DST001", gate="distribution")
def too_few_rollouts(subject: Subject) -> Iterator[Found]:
    """There are too few rollouts to say anything.

    What: At least `gates.distribution.min_rollouts` rollouts have a reward. Fewer are inconclusive, never a
        failure.
    Why: A mean over a handful of rollouts is luck.
    Fix: Raise `gates.smoke.tasks` or `gates.smoke.rollouts` in registry.yaml, or hand in more results.
    """
    gate = subject.entry.gates.distribution
    if "distribution" not in subject.facts.completed:
        return
    found = samples(subject)
    if not found:
        yield Found(
            f"there are no rollouts of a policy that varies, needed are {gate.min_rollouts}",
            {"count": 0, "expected": gate.min_rollouts},
            inconclusive=True,
        )
    for sample in found:
        if len(sample.shares) < gate.min_rollouts:
            empty = "; the declared range is empty" if subject.range.span <= 0 else ""
            yield Found(
                f"{len(sample.shares)} rollouts of {sample.policy} have a reward, "
                f"needed are {gate.min_rollouts}{empty}",
                _evidence(sample) | {"expected": gate.min_rollouts},
                inconclusive=True,
            )


@rule("DST002", gate="distribution")
def mean_is_too_low(subject: Subject) -> Iterator[Found]:
    """The mean reward is too low to learn from.

    What: The mean reward, as a share of the declared range, is above `gates.distribution.min_mean`.
    Why: Where nearly nothing is rewarded, groups have no variance and training has no signal.
    Fix: Offer easier tasks or partial credit, or train a stronger model.
    """
    bound = subject.entry.gates.distribution.min_mean
    yield from _bounded(
        subject, "mean reward", lambda sample: mean(sample.shares), lambda value: value <= bound, f"> {bound:g}"
    )


@rule("DST003", gate="distribution")
def mean_is_too_high(subject: Subject) -> Iterator[Found]:
    """The mean reward is too high to learn from.

    What: The mean reward, as a share of the declared range, is below `gates.distribution.max_mean`.
    Why: Where nearly everything is rewarded there is nothing left to learn, or the reward pays for too
        little.
    Fix: Offer harder tasks, or look for what the reward pays by mistake.
    """
    bound = subject.entry.gates.distribution.max_mean
    yield from _bounded(
        subject, "mean reward", lambda sample: mean(sample.shares), lambda value: value >= bound, f"< {bound:g}"
    )


@rule("DST004", gate="distribution")
def rewards_hardly_vary(subject: Subject) -> Iterator[Found]:
    """Rewards hardly vary.

    What: The standard deviation of rewards, as a share of the declared range, is above
        `gates.distribution.min_std`.
    Why: Advantages are differences of rewards: without any there is no gradient.
    Fix: Check that the reward reads the reply, and that tasks differ in difficulty.
    """
    bound = subject.entry.gates.distribution.min_std
    yield from _bounded(
        subject,
        "standard deviation of the reward",
        lambda sample: standard_deviation(sample.shares),
        lambda value: value <= bound,
        f"> {bound:g}",
    )


@rule("DST005", gate="distribution")
def format_is_rarely_met(subject: Subject) -> Iterator[Found]:
    """The format is rarely met.

    What: The mean score of each format function, where there is one, is above
        `gates.distribution.min_format`.
    Why: A model that rarely answers in the right form is rarely rewarded for a right answer.
    Fix: Show the format in the prompt with an example, or accept more forms.
    """
    bound = subject.entry.gates.distribution.min_format
    for function in subject.range.format_functions:

        def measure(sample: Sample, function: str = function) -> float | None:
            said = [each.functions[function].score for each in sample.scored if function in each.functions]
            scores = [score for score in said if is_reward_number(score)]
            return mean(scores) if scores else None

        yield from _bounded(subject, f"mean of {function}", measure, lambda value: value <= bound, f"> {bound:g}")


@rule("DST006", gate="distribution")
def coverage_is_low(subject: Subject) -> Iterator[Found]:
    """Too many rollouts have no reward.

    What: At least 90 % of the rollouts have a reward. Fewer are inconclusive: a missing reward is not zero.
    Why: What is missing is rarely missing by chance; long and hard rollouts time out first.
    Fix: Mend what the smoke gate says of failed and late rollouts, then run again.
    """
    for sample in samples(subject):
        if sample.coverage < MIN_COVERAGE:
            yield Found(
                f"{len(sample.scored)} of {sample.attempted} rollouts of {sample.policy} have a reward, "
                f"coverage {sample.coverage:.2f} of {MIN_COVERAGE:g}",
                _evidence(sample) | {"expected": f">= {MIN_COVERAGE:g}"},
                inconclusive=True,
            )


@rule("DST007", gate="distribution")
def distribution_evaluation_fails(subject: Subject) -> Iterator[Found]:
    """The evaluation behind the distribution as a whole fails.

    What: The evaluation that the distribution is measured on starts and ends.
    Why: What was not measured is not proven.
    Fix: Mend the line that is named; the traceback is in the evidence.
    """
    failure = own_failure(subject, "distribution")
    if failure is not None:
        yield Found(f"the distribution's evaluation failed: {described(failure)}", of_failure(failure), failure.place)
