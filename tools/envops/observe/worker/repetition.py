"""The same conversations scored again under other circumstances, and what differed."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .failures import OutOfTime
from .policies import Message
from .session import Session
from .spare import SpareLost

KEPT = 20
POLICIES = ("oracle", "nop", "echo", "near-miss", "format-only", "hedge", "wrong-last")


@dataclass(frozen=True)
class Unit:
    """What is scored at once: one conversation, or all on a task where rewards compare them."""

    task: int
    policies: tuple[str, ...]
    completions: tuple[list[Message], ...]

    def reversed(self) -> Unit:
        return Unit(self.task, self.policies[::-1], self.completions[::-1])

    def as_data(self) -> dict[str, Any]:
        return {"task": self.task, "policies": self.policies, "completions": self.completions}


Rewards = list[list[float | None]]


def scored_units(session: Session, units: Sequence[Unit], seconds: float) -> Rewards:
    """Rewards of each unit's conversations, in order."""
    return [_rewards(session.run(_score(session, unit), seconds)) for unit in units]


async def _score(session: Session, unit: Unit) -> list[dict[str, Any]]:
    scored: list[dict[str, Any]] = await session.adapter.score(session.kept[unit.task], unit.completions)
    return scored


def _rewards(rows: Sequence[dict[str, Any]]) -> list[float | None]:
    return [row["reward"] for row in rows]


def scored_in_the_spare(session: Session, units: list[dict[str, Any]]) -> Rewards:
    """What the spare does when it is asked."""
    parsed = [Unit(unit["task"], tuple(unit["policies"]), tuple(unit["completions"])) for unit in units]
    return scored_units(session, parsed, 5.0)


def repetitions(session: Session, units: Sequence[Unit], seconds: float) -> Iterator[dict[str, Any]]:
    """Score the units under every circumstance; each answer has the shape of `Repetition`."""
    deadline = time.monotonic() + seconds
    first, second = scored_units(session, units, seconds), scored_units(session, units, seconds)
    steady = [[_same(a, b) for a, b in zip(one, other, strict=True)] for one, other in zip(first, second, strict=True)]
    turned = [unit.reversed() for unit in units[::-1]]

    def compared(circumstance: str, again: Rewards) -> dict[str, Any]:
        return _compared(circumstance, units, first, again, steady)

    def in_order() -> Rewards:
        return _turned_back(scored_units(session, turned, seconds))

    def in_the_spare() -> Rewards:
        if session.spare is None:
            raise SpareLost("there was none")
        question = [unit.as_data() for unit in turned]
        return _turned_back(session.spare.ask(question, max(1.0, deadline - time.monotonic())))

    def at_once() -> Rewards:
        async def gathered() -> list[Any]:
            return list(await asyncio.gather(*(_score(session, unit) for unit in units)))

        return [_rewards(rows) for rows in session.run(gathered(), seconds)]

    for circumstance, score in (("order", in_order), ("fresh process", in_the_spare), ("parallel", at_once)):
        try:
            yield compared(circumstance, score())
        except (OutOfTime, SpareLost) as error:
            yield {"circumstance": circumstance, "count": 0, "failure": session.sources.failure(error)}
    if session.spare is not None:
        session.spare.end()
        session.spare = None


def _turned_back(rewards: Rewards) -> Rewards:
    return [row[::-1] for row in rewards[::-1]]


def _compared(
    circumstance: str, units: Sequence[Unit], first: Rewards, again: Rewards, steady: Sequence[Sequence[bool]]
) -> dict[str, Any]:
    """Where rewards differ, less the conversations that do not even earn the same at once."""
    differences = [
        {"task": unit.task, "policy": policy, "completion": completion, "reward": one, "again": other}
        for unit, ones, others, calm in zip(units, first, again, steady, strict=True)
        for policy, completion, one, other, still in zip(
            unit.policies, unit.completions, ones, others, calm, strict=True
        )
        if still and not _same(one, other)
    ]
    return {
        "circumstance": circumstance,
        "count": sum(len(unit.policies) for unit in units),
        "differences": differences[:KEPT],
        "difference_count": len(differences),
    }


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
