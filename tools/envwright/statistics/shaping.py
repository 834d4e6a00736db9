"""Outcome and shaping: the part of a reward for solving the task, and the part that only guides the model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envwright.facts.reward_numbers import is_reward_number
from envwright.statistics.clusters import variance_parts
from envwright.statistics.groups import distinct

if TYPE_CHECKING:
    from envwright.statistics.outcomes import RolloutOutcome, RolloutSample


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
    if sample.range.span <= 0 or not any(is_shaped(sample, name) for name in _weighted(sample)):
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


def is_shaped(sample: RolloutSample, name: str) -> bool:
    """Whether a weighted function judges form, or is a penalty."""
    return name in sample.range.format_functions or _weighted(sample)[name] < 0


def _weighted(sample: RolloutSample) -> dict[str, float]:
    first = sample.scored[0].functions if sample.scored else {}
    return {name: score.weight for name, score in first.items() if score.kind == "reward" and score.weight}


def _part(each: RolloutOutcome, sample: RolloutSample, *, shaped: bool) -> float:
    weighted = [
        score.weight * score.score
        for name, score in each.functions.items()
        if score.kind == "reward"
        and is_reward_number(score.score)
        and (name in sample.range.format_functions or score.weight < 0) is shaped
    ]
    return math.fsum(weighted) / sample.range.span
