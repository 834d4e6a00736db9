"""The differences between two versions of an environment on one corpus of replies.

Pure data and arithmetic. A missing reward equals another missing one and differs from every number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from envwright_worker.reward_equality import same_reward

from envwright.facts.reward_numbers import bounded, is_reward_number
from envwright.packages.versions import version_step
from envwright.statistics.intervals import mean
from envwright.statistics.task_matching import Matching, TwoSides, spoken

if TYPE_CHECKING:
    from envwright_worker.messages import Message

    from envwright.facts.observed import FunctionScore, RewardFunction


NONE_UNMATCHED: TwoSides[tuple[int, ...]] = TwoSides((), ())


@dataclass(frozen=True)
class ComparedVersion:
    """One of the two versions of an environment."""

    label: str
    name: str
    version: str
    generation: str
    digest: str
    functions: tuple[RewardFunction, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)
    """The arguments with which the environment was loaded."""


@dataclass(frozen=True)
class Scoring:
    """One version's score of one reply."""

    reward: float | None
    functions: Mapping[str, FunctionScore] = field(default_factory=dict)
    problem: str = ""
    """The reason for a missing reward, in one line."""


@dataclass(frozen=True)
class ScoredReply:
    """One reply of the corpus, its task in both versions, and how they scored it."""

    said_by: str
    tasks: TwoSides[int]
    completion: tuple[Message, ...]
    scores: TwoSides[Scoring]

    @property
    def reward_changed(self) -> bool:
        return not same_reward(self.scores.before.reward, self.scores.after.reward)

    @cached_property
    def changed_functions(self) -> tuple[str, ...]:
        before, after = self.scores.before.functions, self.scores.after.functions
        return tuple(
            name for name in before if name in after and not same_reward(before[name].score, after[name].score)
        )

    @property
    def changed(self) -> bool:
        return self.reward_changed or bool(self.changed_functions)

    @property
    def pays_differently(self) -> bool:
        """Whether a training run would notice: the total or a function with weight changed."""
        return self.reward_changed or any(
            scoring.functions[name].weight for name in self.changed_functions for scoring in self.scores
        )

    @property
    def difference(self) -> float:
        """The change of the total; infinite if it appeared or disappeared, also as a number."""
        before, after = self.scores.each(lambda scoring: scoring.reward)
        if not is_reward_number(before) or not is_reward_number(after):
            return math.inf if self.reward_changed else 0.0
        return abs(after - before)


@dataclass(frozen=True)
class PromptDifference:
    """A task whose prompt is not the same, byte for byte."""

    tasks: TwoSides[int]
    prompts: TwoSides[str]


@dataclass(frozen=True)
class RewardComparison:
    """The data of a reward diff."""

    versions: TwoSides[ComparedVersion]
    replies: tuple[ScoredReply, ...]
    matched: int
    unmatched_tasks: TwoSides[tuple[int, ...]] = NONE_UNMATCHED
    """Tasks that only one version has."""
    prompts: tuple[PromptDifference, ...] = ()
    unmatched_replies: int = 0
    """Replies whose task has no counterpart."""
    left_out: int = 0
    """Replies beyond the limit of the corpus."""

    @cached_property
    def changed(self) -> tuple[ScoredReply, ...]:
        """The replies on which the versions differ, the greatest difference first."""
        return tuple(sorted((reply for reply in self.replies if reply.changed), key=lambda one: -one.difference))

    @cached_property
    def paid_differently(self) -> tuple[ScoredReply, ...]:
        """The replies for which a training run would notice the change."""
        return tuple(one for one in self.changed if one.pays_differently)

    @property
    def is_port(self) -> bool:
        """Whether the two are different packages, whose versions are unrelated."""
        return self.versions.before.name != self.versions.after.name

    @property
    def bumped(self) -> bool:
        """Whether the package got a higher version since the base."""
        before, after = self.versions.each(lambda version: version.version)
        step = version_step(before, after)
        return after != before if step is None else step.direction > 0

    @property
    def own_functions(self) -> TwoSides[tuple[str, ...]]:
        """Functions and metrics that only one version has."""
        before, after = self.versions.each(lambda version: dict.fromkeys(each.name for each in version.functions))
        return TwoSides(
            tuple(name for name in before if name not in after), tuple(name for name in after if name not in before)
        )

    @property
    def weights(self) -> Mapping[str, tuple[float, float]]:
        """Functions of the same name, and in a group of environments of the same member, whose weight changed."""
        before, after = self.versions.each(
            lambda version: {
                " of ".join(filter(None, (function.name, ", ".join(function.members)))): function.weight
                for function in version.functions
            }
        )
        return {
            name: (before[name], after[name])
            for name in before
            if name in after and not same_reward(before[name], after[name])
        }

    def by_speaker(self) -> Iterable[tuple[str, int, int, float | None, float | None]]:
        """By policy: the number of replies, the number of changed ones, and the mean reward before and after."""
        for speaker in dict.fromkeys(reply.said_by for reply in self.replies):
            replies = [reply for reply in self.replies if reply.said_by == speaker]
            before = _mean([reply.scores.before.reward for reply in replies])
            after = _mean([reply.scores.after.reward for reply in replies])
            yield speaker, len(replies), sum(reply.changed for reply in replies), before, after


def compare(
    versions: TwoSides[ComparedVersion],
    matching: Matching,
    replies: Iterable[ScoredReply],
    *,
    unmatched: int = 0,
    left_out: int = 0,
) -> RewardComparison:
    """Combine two versions' scores of the same replies."""
    prompts = tuple(
        PromptDifference(match.tasks.each(lambda task: task.index), match.tasks.each(lambda task: spoken(task.prompt)))
        for match in matching.matches
        if match.prompts_differ
    )
    return RewardComparison(
        versions, tuple(replies), len(matching.matches), matching.unmatched, prompts, unmatched, left_out
    )


def _mean(rewards: Sequence[float | None]) -> float | None:
    known = [bounded(reward) for reward in rewards if is_reward_number(reward)]
    return mean(known) if known else None
