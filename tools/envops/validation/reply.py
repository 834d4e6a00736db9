"""One reply, scored by an environment and told in full."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envops.facts.limits import LOAD_SECONDS, SECONDS_PER_REPLY
from envops.facts.observed import Description, Failure, FunctionFailure, FunctionScore, Message, Task
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.repository.workspace import Workspace
from envops.validation.job import checked
from envops.validation.opened import opened_environment


class UnknownTaskError(LookupError):
    """There is no such task; `count` is how many there are, as far as it was looked."""

    def __init__(self, index: int, count: int) -> None:
        self.count = count
        super().__init__(f"there is no task {index}: there are {count}, from 0 to {count - 1}")


class OneReplyError(ValueError):
    """Several turns were given to an environment that does not answer back."""


@dataclass(frozen=True)
class Extracted:
    """What one reader found in the reply."""

    by: str
    """A parser of the environment's and its method, or `envops` for the tool's own answer finder."""
    value: Any = None
    error: str = ""


@dataclass(frozen=True)
class Replied:
    """One reply and everything that was said of it."""

    task: Task
    description: Description
    completion: tuple[Message, ...]
    reward: float | None
    functions: Mapping[str, FunctionScore]
    failures: tuple[FunctionFailure, ...]
    failure: Failure | None
    stop: str | None
    extracted: tuple[Extracted, ...]


def reply_to(
    entry: EnvironmentEntry,
    package: Package,
    workspace: Workspace,
    task: int,
    turns: Sequence[str],
    *,
    allow_network: bool,
    stop: threading.Event,
) -> Replied:
    """Score a reply, or the turns of a conversation, on the task with this index.

    Raises `UnknownTaskError`, `OneReplyError`, and `StageFailed` or `ProgramFailed` when the
    environment cannot be loaded or asked.
    """
    with opened_environment(entry, package, workspace, allow_network, stop) as opened:
        if len(turns) > 1 and not opened.description.conversational:
            raise OneReplyError(f"{package.name} does not answer back: one reply is the whole conversation")
        request = opened.worker.request("reply", LOAD_SECONDS, task=task, turns=list(turns), seconds=SECONDS_PER_REPLY)
        parts = {kind: value for kind, value in request if kind != "network"}
    if "missing" in parts:
        raise UnknownTaskError(task, parts["missing"]["count"])
    said = parts["replied"]
    return Replied(
        task=checked(Task, parts["task"]),
        description=opened.description,
        completion=tuple(said["completion"]),
        reward=said["reward"],
        functions={name: checked(FunctionScore, one) for name, one in said["functions"].items()},
        failures=tuple(checked(FunctionFailure, one) for one in said.get("failures") or ()),
        failure=None if said.get("failure") is None else checked(Failure, said["failure"]),
        stop=said.get("stop"),
        extracted=tuple(checked(Extracted, one) for one in parts["extracted"]),
    )
