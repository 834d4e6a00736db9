"""Scores the same conversations again under other circumstances, and reports differences."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from envwright_worker.failures import OutOfTime
from envwright_worker.messages import Message
from envwright_worker.policies import POLICIES
from envwright_worker.reward_equality import same_reward
from envwright_worker.session import Session

KEPT = 20
UNIT_SECONDS = 10.0
"""Maximum wall time of one unit, far above that on a busy machine."""
PATIENCE_SECONDS = 30.0
PATIENCE_TIMES = 3.0
"""Maximum time of all units under another circumstance: this minimum, or a multiple of the time before."""
REPEATED = tuple(policy.name for policy in POLICIES if policy.is_repeated)


@dataclass(frozen=True)
class Unit:
    """A unit of scoring: one conversation, or all of a task if rewards compare them."""

    task: int
    policies: tuple[str, ...]
    completions: tuple[list[Message], ...]

    def reversed(self) -> Unit:
        return Unit(self.task, self.policies[::-1], self.completions[::-1])

    def as_data(self) -> dict[str, Any]:
        return {"task": self.task, "policies": self.policies, "completions": self.completions}


Rewards = list[list[float | None]]


def scored_units(session: Session, units: Sequence[Unit], seconds: float) -> Rewards:
    """Rewards of each unit's conversations, in order. Raises `OutOfTime` if the stage's time is over before."""
    rewards: Rewards = []
    for unit in units:
        if session.is_late:
            raise OutOfTime("the stage's time limit was reached")
        rewards.append(_rewards(session.run(_score(session, unit), seconds)))
    return rewards


async def _score(session: Session, unit: Unit) -> list[dict[str, Any]]:
    scored: list[dict[str, Any]] = await session.adapter.score(session.kept[unit.task], unit.completions)
    return scored


def _rewards(rows: Sequence[dict[str, Any]]) -> list[float | None]:
    return [row["reward"] for row in rows]


def repetitions(session: Session, units: Sequence[Unit]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Score the units in another order and side by side, and send them as samples for other processes to score.

    Yields kinds and values: `sample`, a unit with its rewards and which of them were the same at once; `repetition`,
    in the shape of `envwright.facts.observed`.
    """
    started = time.monotonic()
    first, second = scored_units(session, units, UNIT_SECONDS), scored_units(session, units, UNIT_SECONDS)
    patience = max(PATIENCE_SECONDS, PATIENCE_TIMES * (time.monotonic() - started))
    steady = [
        [same_reward(a, b) for a, b in zip(one, other, strict=True)] for one, other in zip(first, second, strict=True)
    ]
    for unit, rewards, same in zip(units, first, steady, strict=True):
        yield "sample", unit.as_data() | {"rewards": rewards, "steady": same}
    turned = [unit.reversed() for unit in units[::-1]]

    def in_order() -> Rewards:
        return _turned_back(scored_units(session, turned, UNIT_SECONDS))

    def at_once() -> Rewards:
        async def gathered() -> list[Any]:
            return list(await asyncio.gather(*(_score(session, unit) for unit in units)))

        return [_rewards(rows) for rows in session.run(gathered(), min(patience, session.seconds_left))]

    for circumstance, score in (("order", in_order), ("parallel", at_once)):
        try:
            yield "repetition", _compared(circumstance, units, first, score(), steady)
        except OutOfTime as error:
            failure = session.sources.failure(error)
            yield "repetition", {"circumstance": circumstance, "count": 0, "failure": failure}


def _turned_back(rewards: Rewards) -> Rewards:
    return [row[::-1] for row in rewards[::-1]]


def _compared(
    circumstance: str, units: Sequence[Unit], first: Rewards, again: Rewards, steady: Sequence[Sequence[bool]]
) -> dict[str, Any]:
    """The conversations whose rewards differ, without those that differ when repeated at once."""
    differences = [
        {"task": unit.task, "policy": policy, "completion": completion, "reward": one, "again": other}
        for unit, ones, others, calm in zip(units, first, again, steady, strict=True)
        for policy, completion, one, other, still in zip(
            unit.policies, unit.completions, ones, others, calm, strict=True
        )
        if still and not same_reward(one, other)
    ]
    return {
        "circumstance": circumstance,
        "count": sum(len(unit.policies) for unit in units),
        "differences": differences[:KEPT],
        "difference_count": len(differences),
    }
