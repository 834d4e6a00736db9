"""The blend: a policy whose share of right replies is its skill on a task, drawn from a seeded Beta distribution.

`blend` is the plain one. `blend:oracle=3,near-miss=1` weighs the policies that it is made of, and
`blend:oracle=1,nop=3,spread=0` has the same skill on all tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from envwright_worker.policies import POLICIES
from envwright_worker.policies.baselines import echo, nop, oracle
from envwright_worker.policies.distorted_answers import format_only, hedge, near_miss
from envwright_worker.policies.policy import UnknownPolicy, generator

BLEND = "blend"
PREFIX = f"{BLEND}:"
SHAPE = (1.6, 1.6)
"""Skill of the blend per task ~ Beta(1.6, 1.6): broad around one half, so that groups are mixed as those of a model
worth training are."""
CONCENTRATION = sum(SHAPE)


@dataclass(frozen=True)
class Blend:
    """The oracle's share of replies, its spread between tasks, and the other policies."""

    share: float
    mistakes: Mapping[str, float]
    spread: float = 1.0
    """1 is as broad as the plain blend; 0 gives every task the same skill."""

    def skill(self, task: int) -> float:
        """The oracle's share of replies on a task: Beta with mean `share`."""
        if self.spread <= 0 or not 0 < self.share < 1:
            return self.share
        concentration = CONCENTRATION / self.spread
        shape = concentration * self.share, concentration * (1 - self.share)
        return generator(0, "skill", task).betavariate(*shape)

    def drawn(self, task: int, went: str | int, count: int) -> str:
        """The policy that replies next; `went` identifies the conversation so far, 0 at its beginning."""
        draw = generator(0, "draw", task, went, count)
        if not self.mistakes or draw.random() < self.skill(task):
            return oracle.name
        return draw.choices(list(self.mistakes), list(self.mistakes.values()))[0]


PLAIN = Blend(0.5, {near_miss.name: 5, format_only.name: 2, hedge.name: 1, echo.name: 1, nop.name: 1})


def is_blend(name: str) -> bool:
    """Whether a policy's name is that of a blend."""
    return name == BLEND or name.startswith(PREFIX)


def blend_named(name: str) -> Blend:
    """The blend that a model name describes.

    Raises `UnknownPolicy` if it names an unknown policy or an invalid weight.
    """
    if name == BLEND:
        return PLAIN
    weights: dict[str, float] = {}
    for part in name.removeprefix(PREFIX).split(","):
        policy, _, weight = part.partition("=")
        try:
            weights[policy.strip()] = float(weight or 1)
        except ValueError:
            raise UnknownPolicy(f"{name}: {weight!r} is not a weight") from None
    spread = weights.pop("spread", 1.0)
    known = {policy.name for policy in POLICIES}
    strange = [policy for policy in weights if policy not in known]
    total = sum(weights.values())
    if strange or not 0 < total < math.inf or min(weights.values()) < 0 or not 0 <= spread < math.inf:
        raise UnknownPolicy(f"{name}: {', '.join(strange) or 'its weights'} cannot be blended")
    right = weights.pop(oracle.name, 0.0)
    return Blend(right / total, {policy: weight for policy, weight in weights.items() if weight}, spread)
