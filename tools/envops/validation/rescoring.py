"""One corpus of replies, scored by two versions of an environment, each in its own worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from envops_worker.policies.baselines import oracle

from envops.facts.limits import LOAD_SECONDS, SECONDS_PER_REPLY, STAGE_SECONDS, TASKS_SCORED
from envops.facts.observed import Description, Facts, Failure, FunctionFailure, FunctionScore, Message, Task
from envops.facts.results import task_key
from envops.repository.package import CaseDeclaration, Package
from envops.repository.recordings import read_recordings
from envops.repository.registry import EnvironmentEntry
from envops.repository.workspace import Workspace
from envops.statistics.two_sides import TwoSides
from envops.validation.job import checked
from envops.validation.opened import OpenedEnvironment, opened_environment

TASKS_LISTED = 5_000
"""How far a task's counterpart is looked for."""
MOST_REPLIES = 4_000
MOST_BYTES = 16 * 2**20
"""Bounds of the corpus; what is beyond them is counted and not scored."""
BATCH = 400
_KEPT = ("id", "reward", "functions", "failures", "failure")

Result = TypeVar("Result")


@dataclass(frozen=True)
class Reply:
    """A reply of the corpus: who said it, on which task of the side that it comes from."""

    said_by: str
    task: int
    completion: tuple[Message, ...]


@dataclass(frozen=True)
class Rescored:
    """What one version said to one reply."""

    id: int
    reward: float | None
    functions: Mapping[str, FunctionScore]
    failures: tuple[FunctionFailure, ...] = ()
    failure: Failure | None = None

    @property
    def problem(self) -> str:
        """Why there is no reward, in a line; empty where there is one."""
        if self.reward is not None:
            return ""
        first = self.failures[0] if self.failures else None
        failure = first.failure if first else self.failure
        if failure is None:
            return "no reward"
        said = (failure.message.strip().splitlines() or [""])[0][:200]
        return f"{f'{first.function}: ' if first else ''}{failure.type}: {said}"


@dataclass
class Listing:
    """The tasks of one version, and what its oracle says on the first of them."""

    tasks: dict[int, Task] = field(default_factory=dict)
    said: list[Reply] = field(default_factory=list)


class Scorer:
    """One version of an environment, loaded and ready to score; use as a context manager."""

    def __init__(
        self,
        entry: EnvironmentEntry,
        package: Package,
        workspace: Workspace,
        allow_network: bool,
        stop: threading.Event,
    ) -> None:
        self._entry = entry
        self._opening = opened_environment(entry, package, workspace, allow_network, stop)
        self._stack = ExitStack()
        self._opened: OpenedEnvironment | None = None
        self.package = package
        self.listing = Listing()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def description(self) -> Description:
        assert self._opened is not None
        return self._opened.description

    def open(self) -> None:
        """Load the environment and list its tasks."""
        self._opened = self._stack.enter_context(self._opening)
        for kind, value in self._opened.worker.request(
            "listing", LOAD_SECONDS, limit=TASKS_LISTED, asked=TASKS_SCORED, seconds=SECONDS_PER_REPLY
        ):
            if kind == "task":
                task = checked(Task, value)
                self.listing.tasks[task.index] = task
            elif kind == "said":
                self.listing.said.append(Reply(oracle.name, value["task"], tuple(value["completion"])))

    def score(self, replies: Sequence[Reply]) -> list[Rescored]:
        """What this version says to each reply, in order; `task` is this version's own index."""
        assert self._opened is not None
        scored: dict[int, Rescored] = {}
        for start in range(0, len(replies), BATCH):
            batch = [
                {"id": start + number, "task": reply.task, "completion": reply.completion}
                for number, reply in enumerate(replies[start : start + BATCH])
            ]
            limits = {"seconds": SECONDS_PER_REPLY, "max_concurrent": self._entry.gates.smoke.max_concurrent}
            for kind, value in self._opened.worker.request("rescore", STAGE_SECONDS, replies=batch, **limits):
                if kind == "rescored":
                    one = checked(Rescored, {key: value[key] for key in _KEPT if key in value})
                    scored[one.id] = one
        missing = Failure("protocol", "NotScored", "the worker gave no answer")
        return [scored.get(number, Rescored(number, None, {}, (), missing)) for number in range(len(replies))]


def side_by_side(calls: TwoSides[Callable[[], Result]], stop: threading.Event) -> TwoSides[Result]:
    """Two calls at the same time; both have ended when this returns or raises.

    Ctrl-C sets `stop`, on which both calls must end.
    """
    with ThreadPoolExecutor(2) as pool:
        futures = calls.each(pool.submit)
        try:
            while not all(future.done() for future in futures):
                time.sleep(0.05)
        except KeyboardInterrupt:
            stop.set()
            raise
    return futures.each(lambda future: future.result())


def replies_of(facts: Facts) -> Iterator[Reply]:
    """Everything that was said in an observation: policies, cases, rollouts."""
    for score in facts.scores:
        if score.completion:
            yield Reply(score.policy, score.task, score.completion)
    for case in facts.cases:
        if case.score is not None and case.score.completion:
            yield Reply(f"case {case.name}", case.score.task, case.score.completion)
    for rollout in facts.rollouts:
        if rollout.completion:
            yield Reply(rollout.policy, rollout.task, rollout.completion)


def replies_of_cases(cases: Iterable[CaseDeclaration], tasks: Mapping[int, Task]) -> Iterator[Reply]:
    """The replies of declared cases on the tasks that they mean; a case without a task is passed over."""
    for case in cases:
        task = _task_meant(case, tasks)
        if task is not None:
            turns = (case.reply,) if isinstance(case.reply, str) else case.reply
            said = tuple(
                {"role": "assistant", "content": turn}
                if isinstance(turn, str)
                else {"role": "assistant", "content": "", **turn}
                for turn in turns
            )
            yield Reply(f"case {case.name}", task.index, said)


def _task_meant(case: CaseDeclaration, tasks: Mapping[int, Task]) -> Task | None:
    wanted = case.task
    if isinstance(wanted, int):
        return tasks.get(wanted)
    return next((task for task in tasks.values() if wanted.items() <= task.data.items()), None)


def replies_of_recordings(folder: Path, tasks: Mapping[int, Task]) -> Iterator[Reply]:
    """What real models once said, where it was recorded, on the tasks that it was said about."""
    by_key: dict[str, int] = {}
    for task in tasks.values():
        by_key.setdefault(task_key(task.prompt, task.data), task.index)
    for recording in read_recordings(folder):
        for _, row in recording.rows:
            index = by_key.get(row.task_key)
            if row.completion and index is not None:
                yield Reply(row.model or row.policy or recording.file, index, row.completion)
