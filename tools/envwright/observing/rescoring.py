"""Replies that are scored again by a job that has loaded the environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from envwright_worker.messages import Message

from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.limits import SECONDS_PER_REPLY, STAGE_SECONDS
from envwright.facts.observed import Failure, FunctionFailure, FunctionScore
from envwright.observing.job import checked

BATCH = 400

SendRequest = Callable[..., Iterator[tuple[str, Any]]]
"""`Job.request` of a job that has loaded the environment."""


@dataclass(frozen=True)
class Rescored:
    """One version's score of one reply."""

    id: int
    reward: float | None
    functions: Mapping[str, FunctionScore]
    failures: tuple[FunctionFailure, ...] = ()
    failure: Failure | None = None
    completion: tuple[Message, ...] | None = None
    """The messages of the rollout, if the reply was played in one."""

    @property
    def problem(self) -> str:
        """The reason for a missing reward, in one line; empty if there is a reward."""
        if self.reward is not None:
            return ""
        first = self.failures[0] if self.failures else None
        failure = first.failure if first else self.failure
        if failure is None:
            return "no reward"
        message = (failure.message.strip().splitlines() or [""])[0][:200]
        return f"{f'{first.function}: ' if first else ''}{failure.type}: {message}"


def rescored(
    request: SendRequest, entry: EnvironmentEntry, replies: Sequence[Mapping[str, Any]], **more: Any
) -> dict[int, Rescored]:
    """Id → the scores of replies with `id`, `task` and `completion`; one that the worker skips is missing."""
    limits = {"seconds": SECONDS_PER_REPLY, "max_concurrent": entry.gates.smoke.max_concurrent, **more}
    known = [field.name for field in fields(Rescored)]
    found: dict[int, Rescored] = {}
    for start in range(0, len(replies), BATCH):
        for kind, value in request("rescore", STAGE_SECONDS, replies=replies[start : start + BATCH], **limits):
            if kind == "rescored":
                one: Rescored = checked(Rescored, {name: value[name] for name in known if name in value})
                found[one.id] = one
    return found
