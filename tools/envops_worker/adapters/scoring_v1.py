"""Scoring a trace in place by the task's own hooks, in a runtime where they ask for one."""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.runtimes import make_runtime

from envops_worker.adapters.adapter import TaskView
from envops_worker.adapters.traces_v1 import heard_in, trace_of
from envops_worker.policies.judges import being_scored
from envops_worker.waiting import Waits, at_once

MOST_SIGNATURES = 256
_SCORING: Any = sys.modules[vf.Task.__module__]
"""Where verifiers looks for what calls a task's functions."""


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


def scores_plainly(task: Any) -> bool:
    """Whether verifiers' own scoring calls the task's own functions and nothing else."""
    kind, own = type(task), vf.Task
    as_verifiers = kind.score is own.score and kind.hooks is own.hooks and kind.plugged_judges is own.plugged_judges
    return (
        as_verifiers
        and hasattr(_SCORING, "invoke_all")
        and hasattr(_SCORING, "inspect")
        and not task.plugged_judges()
        and not needs_runtime(task)
    )


def score_at_once(task: Any, trace: Any) -> None:
    """Score a trace by the task's own `score`, without a loop: one function after the other, in the order of tasks.

    Raises `Waits` where a function waits for something, and whatever scoring raises.
    """
    waited: list[Callable[..., Any]] = []

    async def one_by_one(functions: Sequence[Callable[..., Any]], available: Mapping[str, Any]) -> list[Any]:
        return _asked_in_turn(functions, available, waited)

    together = _SCORING.invoke_all, _SCORING.inspect
    try:
        _SCORING.invoke_all, _SCORING.inspect = one_by_one, _Inspected
        at_once(task.score(trace))
    except Exception:
        if waited:
            raise Waits from None
        raise
    finally:
        _SCORING.invoke_all, _SCORING.inspect = together


class _Inspected:
    """Signatures read once for each function: reading one takes as long as many a function does."""

    Parameter = inspect.Parameter
    signature = staticmethod(functools.lru_cache(MOST_SIGNATURES)(inspect.signature))


def _asked_in_turn(
    functions: Sequence[Callable[..., Any]], available: Mapping[str, Any], waited: list[Callable[..., Any]]
) -> list[Any]:
    """What each of them says; all are asked, as tasks that were begun would be, before the first error is raised."""
    said, errors = [], list[Exception]()
    for function in functions:
        wanted = _Inspected.signature(function).parameters
        given = {name: available[name] for name in wanted if name in available}
        try:
            said.append(copy_context().run(at_once, function(**given)))
        except Waits:
            waited.append(function)
            raise
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return said


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
