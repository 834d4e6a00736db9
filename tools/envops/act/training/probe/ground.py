"""The environment that a policy is trained on: its real worker, its real rollouts, its own rewards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

from envops.act.training.probe.conversations import Spoken, Trajectory
from envops.declare.package import Package
from envops.declare.registry import EnvironmentEntry
from envops.judge.evidence import text_of
from envops.observe.facts import Rollout, Score, Task
from envops.observe.limits import LOAD_SECONDS, SECONDS_PER_REPLY, STAGE_SECONDS
from envops.observe.opened import opened_environment
from envops.observe.process import WorkerProcess, checked
from envops.observe.workspace import Workspace

MODEL = "policy"
AT_ONCE = 64
ROLLOUT_SECONDS = 60.0
MOST_TASKS = 512


@dataclass(frozen=True)
class Played:
    """One rollout: what it earned, `None` where it failed, and its tokens."""

    task: int
    reward: float | None
    trajectory: Trajectory | None
    failure: str = ""


@dataclass
class Ground:
    """An environment that is loaded and waits for a policy."""

    worker: WorkerProcess
    tasks: tuple[Task, ...]
    gold: tuple[str, ...]
    """Everything that a perfect model says, turn by turn."""
    gold_reward: float | None
    """What a perfect model earns on average."""

    def play(self, indices: Sequence[int], rollouts: int, base_url: str, spoken: Spoken) -> list[list[Played]]:
        """Groups of rollouts, in the order of the tasks asked for."""
        prompts = {task.index: task.prompt for task in self.tasks}
        found: dict[int, list[Played]] = {index: [] for index in indices}
        for rollout in self._rollouts(list(found), rollouts, base_url):
            found[rollout.task].append(_played(rollout, prompts[rollout.task], spoken))
        return [found[index] for index in indices]

    def _rollouts(self, indices: list[int], rollouts: int, base_url: str) -> Iterator[Rollout]:
        asked: dict[str, Any] = {"policies": [MODEL], "indices": indices, "rollouts": rollouts, "relay": base_url}
        limits = {"max_concurrent": AT_ONCE, "seconds": ROLLOUT_SECONDS, "predict": False, "tasks": len(indices)}
        for kind, value in self.worker.request("evaluate", STAGE_SECONDS, stage="smoke", **asked, **limits):
            if kind == "rollout":
                yield checked(Rollout, value)


@contextmanager
def opened_ground(
    entry: EnvironmentEntry, package: Package, workspace: Workspace, args: dict[str, Any], stop: Event
) -> Iterator[Ground]:
    """Load an environment with these arguments on top of its registry entry's.

    Raises what `opened_environment` raises, and `ValueError` where gold says nothing.
    """
    entry = replace(entry, args={**entry.args, **args})
    with opened_environment(entry, package, workspace, False, stop) as opened:
        parts = list(opened.worker.request("tasks", LOAD_SECONDS, keep=MOST_TASKS))
        tasks = tuple(checked(Task, value) for kind, value in parts if kind == "task")
        scores = list(_gold(opened.worker, len(tasks)))
        gold = tuple(
            text
            for score in scores
            for message in score.completion
            if message["role"] == "assistant" and (text := text_of(message))
        )
        rewards = [score.reward for score in scores if score.reward is not None]
        yield Ground(opened.worker, tasks, gold, sum(rewards) / len(rewards) if rewards else None)


def _gold(worker: WorkerProcess, tasks: int) -> Iterator[Score]:
    asked = {"policies": ["oracle"], "sampled": {}, "conversations": tasks}
    limits = {"seconds": SECONDS_PER_REPLY, "max_concurrent": AT_ONCE}
    for kind, value in worker.request("rewards", STAGE_SECONDS, **asked, **limits):
        if kind == "score":
            yield checked(Score, value)


def _played(rollout: Rollout, prompt: Sequence[Any], spoken: Spoken) -> Played:
    if rollout.failure is not None or rollout.reward is None:
        said = rollout.failure.message if rollout.failure else "no reward"
        return Played(rollout.task, None, None, said)
    return Played(rollout.task, rollout.reward, spoken.trajectory(prompt, rollout.completion))
