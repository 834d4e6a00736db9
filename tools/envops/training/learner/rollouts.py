"""What TRL asks for as `rollout_func`: rollouts of an environment, as tokens with masks and rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import fmean
from typing import Any

from envops.training.learner.environment import PlayedRollout, TrainingEnvironment
from envops.training.learner.serving import PolicyServer


class NothingPlayed(Exception):
    """No rollout of a step earned a reward; the message says what the first of them failed of."""


@dataclass
class RolloutFunction:
    """The environment as TRL's `rollout_func`; prompts are the numbers of tasks."""

    ground: TrainingEnvironment
    server: PolicyServer
    unsaid: int
    """A token that stands for a rollout without tokens; it is masked out."""
    constant: float | None = None
    """Pay this for every rollout instead of the environment's reward."""
    latest: list[PlayedRollout] = field(default_factory=list)
    under_way: bool = False
    """Whether rollouts are being made: the weights are those of the last finished step then."""

    def __call__(self, prompts: Sequence[str], _trainer: Any) -> dict[str, list[Any]]:
        self.under_way = True
        self.server.spoken.clear()
        self.latest = self.ground.play([int(prompt) for prompt in prompts], self.server)
        if all(played.reward is None for played in self.latest):
            reason = self.server.refused or self.latest[0].failure
            raise NothingPlayed(f"none of {len(self.latest)} rollouts earned a reward; the first: {reason}")
        rows = [self._row(played) for played in self.latest]
        self.under_way = False
        return {key: [row[key] for row in rows] for key in rows[0]}

    def _row(self, played: PlayedRollout) -> dict[str, Any]:
        """A rollout as TRL takes it; one without a reward has no part in its group, one without tokens no gradient."""
        trajectory = played.trajectory
        return {
            "prompt_ids": list(trajectory.prompt) if trajectory else [self.unsaid],
            "completion_ids": list(trajectory.completion) if trajectory else [self.unsaid],
            "logprobs": list(trajectory.logprobs) if trajectory else [0.0],
            "env_mask": list(trajectory.mask) if trajectory else [0],
            "paid": played.reward if self.constant is None else self.constant,
        }


def environment_reward(paid: list[float | None], **_: Any) -> list[float | None]:
    """What the rollouts earned, as TRL asks for it."""
    return paid


@dataclass(frozen=True)
class Tally:
    """What the rollouts of one step came to."""

    reward: float
    """Mean over the rollouts that have one."""
    dead_groups: float
    """Share of groups in which all rewards are equal: nothing to learn from."""
    failed: int
    rollouts: int
    untrained: int
    """RolloutFunction with a reward whose tokens are not the policy's: they give no gradient."""
    functions: dict[str, float]
    """Mean of each reward function and metric."""


def tally(played: Sequence[PlayedRollout]) -> Tally:
    """Sum up the rollouts of a step."""
    known = [each.reward for each in played if each.reward is not None]
    groups = [[each.reward for each in group] for _, group in groupby(played, key=lambda each: each.task)]
    names = dict.fromkeys(name for each in played for name in each.functions)
    return Tally(
        reward=fmean(known) if known else 0.0,
        dead_groups=fmean(len(set(group)) < 2 for group in groups) if groups else 0.0,
        failed=len(played) - len(known),
        rollouts=len(played),
        untrained=sum(each.reward is not None and each.trajectory is None for each in played),
        functions={name: fmean(each.functions[name] for each in played if name in each.functions) for name in names},
    )
