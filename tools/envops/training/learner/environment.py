"""The environment that a policy is trained on: its real worker, its real rollouts, its own rewards."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

from envops.facts.limits import LOAD_SECONDS
from envops.facts.observed import Description, Rollout, Task
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.repository.workspace import Workspace
from envops.training.learner.conversations import LostTurn, Spoken, Trajectory
from envops.training.learner.serving import PolicyServer
from envops.validation.job import Job, checked
from envops.validation.opened_environment import opened_environment

MODEL = "policy"


@dataclass(frozen=True)
class Played:
    """One rollout: what it earned, `None` where it failed, and its tokens, `None` where they are not the policy's."""

    task: int
    reward: float | None
    trajectory: Trajectory | None
    failure: str = ""
    functions: Mapping[str, float] = field(default_factory=dict)
    """What each reward function and metric gave."""


@dataclass(frozen=True)
class Pace:
    """How rollouts are made."""

    at_once: int = 64
    seconds: float = 60.0
    """How long one rollout may take."""


@dataclass
class Ground:
    """An environment that is loaded and waits for a policy."""

    worker: Job
    description: Description
    tasks: tuple[Task, ...]
    pace: Pace = Pace()

    def play(self, asked: Sequence[int], server: PolicyServer) -> list[Played]:
        """A rollout of each task asked for, in that order; rollouts of one task are made as one group."""
        by_task: dict[int, list[Played]] = defaultdict(list)
        counted = Counter(asked)
        for number in sorted(set(counted.values())):
            indices = [index for index, count in counted.items() if count == number]
            for rollout in self._rollouts(indices, number, server.base_url):
                by_task[rollout.task].append(_played(rollout, self._prompts[rollout.task], server.spoken))
        return [by_task[index].pop() for index in asked]

    def _rollouts(self, indices: list[int], rollouts: int, base_url: str) -> Iterator[Rollout]:
        pace = self.pace
        asked: dict[str, Any] = {"policies": [MODEL], "indices": indices, "rollouts": rollouts, "relay": base_url}
        limits = {"max_concurrent": pace.at_once, "seconds": pace.seconds, "predict": False, "tasks": len(indices)}
        within = pace.seconds * math.ceil(len(indices) * rollouts / pace.at_once) + 60.0
        for kind, value in self.worker.request("evaluate", within, stage="smoke", **asked, **limits):
            if kind == "rollout":
                yield checked(Rollout, value)

    @property
    def _prompts(self) -> Mapping[int, Sequence[Any]]:
        return {task.index: task.prompt for task in self.tasks}


@contextmanager
def opened_ground(
    entry: EnvironmentEntry,
    package: Package,
    workspace: Workspace,
    args: Mapping[str, Any],
    stop: Event,
    *,
    most_tasks: int,
    pace: Pace = Pace(),
) -> Iterator[Ground]:
    """Load an environment with these arguments on top of its registry entry's.

    Its network is open where it declares secrets: its judge is elsewhere. Raises what `opened_environment` raises.
    """
    entry = replace(entry, args={**entry.args, **args})
    with opened_environment(entry, package, workspace, bool(entry.secrets), stop) as opened:
        parts = list(opened.worker.request("tasks", LOAD_SECONDS, keep=most_tasks))
        tasks = tuple(checked(Task, value) for kind, value in parts if kind == "task")
        yield Ground(opened.worker, opened.description, tasks, pace)


def _played(rollout: Rollout, prompt: Sequence[Any], spoken: Spoken) -> Played:
    functions = {name: each.score for name, each in rollout.functions.items() if each.score is not None}
    if rollout.failure is not None or rollout.reward is None:
        said = rollout.failure.message if rollout.failure else "no reward"
        return Played(rollout.task, None, None, said, functions)
    try:
        trajectory = spoken.trajectory(prompt, rollout.completion)
    except LostTurn as error:
        return Played(rollout.task, rollout.reward, None, str(error), functions)
    return Played(rollout.task, rollout.reward, trajectory, "", functions)
