"""Scoring a trace in place by the task's own hooks, in a runtime where they ask for one."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.runtimes import make_runtime

from .adapter import TaskView
from .judges import being_scored
from .traces_v1 import heard_in, trace_of


def let_judges_know() -> None:
    """From now on, a judge that is asked while a task is scored can be told about which conversation."""
    if hasattr(vf.Task.score, "__wrapped__"):
        return
    original = vf.Task.score

    @functools.wraps(original)
    async def score(task: Any, trace: Any, *args: Any, **kwargs: Any) -> Any:
        with being_scored(functools.partial(heard_in, trace)):
            return await original(task, trace, *args, **kwargs)

    vf.Task.score = score


def needs_runtime(task: Any) -> bool:
    """Whether the task's scoring would be incomplete without a runtime."""
    hooks = [*task.hooks("reward"), *task.hooks("metric")]
    prepares = type(task).setup is not vf.Task.setup or type(task).finalize is not vf.Task.finalize
    return prepares or any("runtime" in inspect.signature(function).parameters for function in hooks)


async def score_in_place(task: Any, trace: Any, *, in_runtime: bool) -> None:
    """Score a trace by the task's own `score`, in a subprocess runtime where it asks for one."""
    if not in_runtime:
        await task.score(trace)
        return
    runtime = make_runtime(vf.SubprocessConfig(), name=f"envops-{trace.id}")
    await runtime.start()
    try:
        await _invoke(task.setup, trace, runtime)
        await _invoke(task.finalize, trace, runtime)
        await task.score(trace, runtime)
    finally:
        await runtime.stop()


async def _invoke(hook: Callable[..., Any], trace: Any, runtime: Any) -> None:
    offered = {"trace": trace, "runtime": runtime}
    wanted = inspect.signature(hook).parameters
    await hook(**{name: value for name, value in offered.items() if name in wanted})


class provisioned:  # noqa: N801 - reads as what it is: `async with provisioned(task) as runtime`
    """A started subprocess runtime, set up for a task and stopped afterwards."""

    def __init__(self, view: TaskView) -> None:
        self._view = view
        self._runtime = make_runtime(vf.SubprocessConfig(), name=f"envops-validate-{view.index}-{time.time_ns()}")

    async def __aenter__(self) -> Any:
        await self._runtime.start()
        await _invoke(self._view.native.setup, trace_of(self._view, []), self._runtime)
        return self._runtime

    async def __aexit__(self, *_: object) -> None:
        await self._runtime.stop()
