"""The state that a rollout leaves behind, made from a conversation, and what verifiers' rubrics give it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

from envops_worker.adapters.adapter import TaskView
from envops_worker.adapters.environments_v0 import leaf_rubrics, member_of
from envops_worker.adapters.releases_v0 import normalize_messages, resolved_client, trajectory_step
from envops_worker.messages import Message
from envops_worker.waiting import Waits, at_once

UNREACHABLE = "http://127.0.0.1:9/v1"
"""Nothing listens there; scoring needs a client but must not use it."""


async def state_of(environment: Any, task: TaskView, completion: Sequence[Message]) -> Any:
    """A state as verifiers and the environment prepare it, in which the completion was said."""
    member = member_of(environment, task.native)
    state = await member.init_state(dict(task.native), _scoring_client(), "scripted", {})
    prepared = await member.setup_state(state)
    state = state if prepared is None else prepared
    messages = list(completion)
    native = normalize_messages(messages) if normalize_messages else messages
    state["completion"] = native
    before = list(state["prompt"]) if isinstance(state["prompt"], list) else []
    for raw, message in zip(messages, native, strict=True):
        if raw["role"] == "assistant":
            state["trajectory"].append(trajectory_step(before, message, state))
        before.append(message)
    state["is_completed"] = True
    state["stop_condition"] = "scripted"
    return state


@functools.cache
def _scoring_client() -> Any:
    """One client for the process: each one builds a TLS context."""
    return resolved_client(UNREACHABLE, 1.0)


def scored_alone(rubric: Any, state: Any) -> tuple[float, dict[str, float]]:
    """The reward and the metrics that verifiers' own rubrics give a state, function by function.

    As `Rubric.score_rollout` does it, without a task of asyncio's and without reading signatures anew. What a
    function raises is worth nothing. Raises `Waits` where one waits for something.
    """
    reward, metrics = 0.0, dict[str, float]()
    for one in leaf_rubrics(rubric):
        offered = one.score_objects(state)
        said: dict[str, float] = {}
        for function, weight in zip(one.funcs, one.weights, strict=True):
            score = said[function.__name__] = _score_of(function, offered)
            reward += score * weight
        for name, score in said.items():
            metrics[name] = metrics.get(name, 0.0) + score
    return reward, metrics


def _score_of(function: Any, offered: dict[str, Any]) -> float:
    wanted = _wanted(function)
    given = offered if wanted is None else {name: offered[name] for name in wanted if name in offered}
    try:
        value = function(**given)
        if type(value) is float:  # most are
            return value
        return float(at_once(value) if inspect.isawaitable(value) else value)
    except Waits:
        raise
    except Exception:
        return 0.0


@functools.cache
def _wanted(function: Any) -> tuple[str, ...] | None:
    """Names of a function's parameters; `None` where it takes whatever it is given."""
    parameters = inspect.signature(function).parameters
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    return None if takes_all else tuple(parameters)
