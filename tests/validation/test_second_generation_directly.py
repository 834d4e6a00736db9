"""Replies to tasks of the second generation, scored without a loop, beside verifiers' own way of scoring them."""

from __future__ import annotations

import json
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest
from envwright.builds.venv import IMPORT_WORKER, venv_for
from sample_packages import EXEMPLARS, REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from envwright.system.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.worker]

MODULE = """
import asyncio
import contextvars

import verifiers.v1 as vf

__all__ = ["Tasks"]
SEEN = contextvars.ContextVar("seen", default="nothing")


class Data(vf.TaskData):
    answer: str = "4"


class Plain(vf.Task[Data]):
    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        trace.info["length"] = len(trace.last_reply)
        SEEN.set("a metric")
        return float(len(trace.last_reply))

    @vf.reward(weight=2.0)
    async def right(self, trace: vf.Trace, task: Data) -> float:
        return float(trace.last_reply == task.answer)

    @vf.reward
    async def told(self, trace: vf.Trace) -> dict:
        return {"told length": trace.info["length"] / 10, "told seen": float(SEEN.get() == "nothing")}


class Fails(vf.Task[Data]):
    @vf.reward
    async def first(self, trace: vf.Trace) -> float:
        raise ValueError("not this one")


class NoNumber(vf.Task[Data]):
    @vf.reward
    async def first(self, trace: vf.Trace) -> float:
        return float("nan")


class Waits(vf.Task[Data]):
    @vf.reward
    async def first(self, trace: vf.Trace) -> float:
        return await asyncio.to_thread(float, 0.5)


class OwnScore(Plain):
    async def score(self, trace, runtime=None):
        await super().score(trace, runtime)
        trace.rewards.pop("told seen")


class OwnHooks(Plain):
    def hooks(self, attr):
        return super().hooks(attr)[:1]


class WithRuntime(vf.Task[Data]):
    @vf.reward
    async def first(self, trace: vf.Trace, runtime) -> float:
        return 1.0


class Tasks(vf.Taskset[Plain]):
    def load(self):
        return [Plain(Data(idx=0, prompt="2 + 2?"), self.config.task)]
"""

ASKED = """
import asyncio, dataclasses, json, sys
from envwright_worker.adapters.adapter import Settings, TaskView
from envwright_worker.adapters.v1 import AdapterV1
from envwright_worker.failures import Sources
from envwright_worker.messages import says

fields = {one.name: None for one in dataclasses.fields(Settings)}
settings = object.__new__(Settings)
for name, value in {**fields, "module": "scored", "args": {}}.items():
    object.__setattr__(settings, name, value)
import scored

adapter = AdapterV1(settings, Sources())
kind = getattr(scored, sys.stdin.read())
loop = asyncio.new_event_loop()
view = next(iter(adapter.tasks("train", 1)))
task = kind(view.native.data, view.native.config)
view = dataclasses.replace(view, native=task)
found = []
for reply in ("4", "something else", "4"):
    completion = [says(reply)]
    asyncio._set_running_loop(loop)
    direct = adapter.score_directly(view, completion)
    asyncio._set_running_loop(None)
    full = loop.run_until_complete(adapter.score(view, [completion]))[0]
    for row in filter(None, (direct, full)):
        row["failures"] = [one["function"] for one in row["failures"]]
    kept = ("reward", "functions", "failures")
    found.append([{key: row[key] for key in kept} if row else None for row in (direct, full)])
print(json.dumps(found))
"""


def scored(kind: str, folder: Path, workspace: Workspace) -> list[tuple[Any, Any]]:
    """The rewards of three replies to a task of this kind, directly and in full."""
    (folder / "scored.py").write_text(MODULE)
    lock = REPOSITORY / "environments" / EXEMPLARS["v1"] / "requirements.lock"
    venv = venv_for(lock, workspace, threading.Event())
    asked = subprocess.run(
        [venv.python, "-c", IMPORT_WORKER + ASKED],
        env={"PYTHONPATH": str(folder), "HOME": str(folder), "PATH": "/usr/bin:/bin"},
        input=kind,
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    return [(direct, full) for direct, full in json.loads(asked.stdout)]


def test_v1_direct_scoring_equals_scoring_in_full(tmp_path: Path, workspace: Workspace):
    replies = scored("Plain", tmp_path, workspace)
    assert [direct for direct, _ in replies] == [full for _, full in replies]
    first = replies[0][0]
    assert first["reward"] == pytest.approx(2.0 + 0.1 + 1.0)
    assert first["functions"]["length"] == {"score": 1.0, "weight": 0.0, "kind": "metric"}
    assert replies[1][0]["functions"]["right"]["score"] == 0.0


@pytest.mark.parametrize("kind", ["Fails", "NoNumber"])
def test_v1_direct_scoring_reports_same_failure(tmp_path: Path, workspace: Workspace, kind: str):
    for direct, full in scored(kind, tmp_path, workspace):
        assert direct == full
        assert direct["failures"] == ["first"]


@pytest.mark.parametrize("kind", ["OwnScore", "Waits", "OwnHooks", "WithRuntime"])
def test_v1_task_with_own_scoring_is_not_scored_directly(tmp_path: Path, workspace: Workspace, kind: str):
    assert [direct for direct, _ in scored(kind, tmp_path, workspace)] == [None] * 3
