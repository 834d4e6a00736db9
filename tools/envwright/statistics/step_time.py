"""The time that a training step waits for the rewards of its rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from envwright.declarations.run import RunSpec
    from envwright.facts.observed import Pace

DEFAULT_ROLLOUTS = 512
"""Rollouts of a step if no run is declared: the usual number of trainers."""
BLOCKING = 0.5
"""The part of a reply's time for which it must hold the event loop to count as blocking."""


class StepTime(NamedTuple):
    """The waiting time of one step."""

    seconds: float
    rollouts: int
    run: str
    """The declared run; empty if there is none."""
    blocks: bool
    """Whether rewards are computed one after the other."""


def blocks(pace: Pace) -> bool:
    """Whether replies can only be scored one after the other."""
    return pace.blocked >= BLOCKING * pace.seconds


def slowest_step(pace: Pace, runs: Sequence[RunSpec]) -> StepTime:
    """The declared run whose steps wait longest; a step of usual size if none is declared."""
    sizes = [(run.batch_size, run.max_concurrent, run.name) for run in runs] or [(DEFAULT_ROLLOUTS, None, "")]
    alone = blocks(pace)
    steps = []
    for rollouts, at_once, name in sizes:
        one_after_other = rollouts if alone else -(-rollouts // (at_once or rollouts))
        steps.append(StepTime(pace.seconds * one_after_other, rollouts, name, alone))
    return max(steps)
