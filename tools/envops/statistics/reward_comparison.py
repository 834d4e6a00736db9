"""Two versions of an environment on one corpus of replies: what changed.

Pure data and arithmetic. A reward that is missing is missing: it equals another missing one
and differs from every number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from envops.facts.observed import FunctionScore, Message, RewardFunction
    from envops.statistics.task_matching import Matching

TOLERANCE = 1e-9
"""Difference up to which two scores are the same number, summed in another order perhaps."""


@dataclass(frozen=True)
class Side:
    """One of the two versions."""

    label: str
    name: str
    version: str
    generation: str
    digest: str
    functions: tuple[RewardFunction, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)
    """What the environment was loaded with."""


@dataclass(frozen=True)
class Scoring:
    """What one version said to one reply."""

    reward: float | None
    functions: Mapping[str, FunctionScore] = field(default_factory=dict)
    problem: str = ""
    """Why there is no reward, in a line."""


@dataclass(frozen=True)
class ScoredReply:
    """One reply of the corpus and what both versions said to it."""

    said_by: str
    base_task: int
    head_task: int
    completion: tuple[Message, ...]
    base: Scoring
    head: Scoring

    @property
    def reward_changed(self) -> bool:
        """Whether the total is another."""
        return not same(self.base.reward, self.head.reward)

    @cached_property
    def changed_functions(self) -> tuple[str, ...]:
        """Functions of the same name on both sides that say something else."""
        return tuple(
            name
            for name, said in self.base.functions.items()
            if name in self.head.functions and not same(said.score, self.head.functions[name].score)
        )

    @property
    def changed(self) -> bool:
        """Whether anything is different."""
        return self.reward_changed or bool(self.changed_functions)

    @property
    def pays_differently(self) -> bool:
        """Whether a training run would notice: the total or a function with weight changed."""
        weighty = (
            self.base.functions[name].weight or self.head.functions[name].weight for name in self.changed_functions
        )
        return self.reward_changed or any(weighty)

    @property
    def difference(self) -> float:
        """How much the total changed; infinite where it came or went."""
        if self.base.reward is None or self.head.reward is None:
            return 0.0 if self.base.reward is self.head.reward else math.inf
        return abs(self.head.reward - self.base.reward)


@dataclass(frozen=True)
class PromptDifference:
    """A task whose prompt is not the same, byte for byte."""

    base_task: int
    head_task: int
    base: str
    head: str


@dataclass(frozen=True)
class RewardComparison:
    """Everything that a reward diff says."""

    base: Side
    head: Side
    replies: tuple[ScoredReply, ...]
    matched: int
    only_base: tuple[int, ...] = ()
    only_head: tuple[int, ...] = ()
    prompts: tuple[PromptDifference, ...] = ()
    unmatched_replies: int = 0
    """Replies whose task has no counterpart."""
    left_out: int = 0
    """Replies beyond the limit of the corpus."""

    @cached_property
    def changed(self) -> tuple[ScoredReply, ...]:
        """The replies on which the versions differ, the greatest difference first."""
        return tuple(sorted((one for one in self.replies if one.changed), key=lambda one: -one.difference))

    @cached_property
    def paid_differently(self) -> tuple[ScoredReply, ...]:
        """The replies for which a training run would notice the change."""
        return tuple(one for one in self.changed if one.pays_differently)

    @property
    def is_port(self) -> bool:
        """Whether the two are different packages, whose versions say nothing about each other."""
        return self.base.name != self.head.name

    @property
    def bumped(self) -> bool:
        """Whether the package got a higher version since the base."""
        try:
            return Version(self.head.version) > Version(self.base.version)
        except InvalidVersion:
            return self.head.version != self.base.version

    @property
    def only_in_base(self) -> tuple[str, ...]:
        """Functions and metrics that the working tree does not have."""
        return _missing(self.base, self.head)

    @property
    def only_in_head(self) -> tuple[str, ...]:
        """Functions and metrics that the base does not have."""
        return _missing(self.head, self.base)

    @property
    def weights(self) -> Mapping[str, tuple[float, float]]:
        """Functions of the same name whose weight is another."""
        after = {one.name: one.weight for one in self.head.functions}
        return {
            one.name: (one.weight, after[one.name])
            for one in self.base.functions
            if one.name in after and not same(one.weight, after[one.name])
        }

    def by_speaker(self) -> Iterable[tuple[str, int, int, float | None, float | None]]:
        """Who spoke, how many replies, how many changed, and the mean reward before and after."""
        for speaker in dict.fromkeys(one.said_by for one in self.replies):
            said = [one for one in self.replies if one.said_by == speaker]
            before, after = (_mean([getattr(one, side).reward for one in said]) for side in ("base", "head"))
            yield speaker, len(said), sum(one.changed for one in said), before, after


def compare(
    base: Side, head: Side, matching: Matching, replies: Iterable[ScoredReply], *, unmatched: int = 0, left_out: int = 0
) -> RewardComparison:
    """Put together what two versions said to the same replies."""
    from envops.statistics.task_matching import spoken

    prompts = tuple(
        PromptDifference(match.base.index, match.head.index, spoken(match.base.prompt), spoken(match.head.prompt))
        for match in matching.matches
        if match.prompts_differ
    )
    return RewardComparison(
        base,
        head,
        tuple(replies),
        len(matching.matches),
        matching.only_base,
        matching.only_head,
        prompts,
        unmatched,
        left_out,
    )


def same(one: float | None, other: float | None) -> bool:
    """Whether two scores are the same; a missing one equals only a missing one."""
    if one is None or other is None:
        return one is other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _missing(one: Side, other: Side) -> tuple[str, ...]:
    known = {function.name for function in other.functions}
    return tuple(function.name for function in one.functions if function.name not in known)


def _mean(rewards: Sequence[float | None]) -> float | None:
    known = [reward for reward in rewards if reward is not None]
    return sum(known) / len(known) if known else None
