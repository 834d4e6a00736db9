"""Keeping the books of a v0 evaluation: each rollout that was asked for comes back once, whatever became of it.

`Environment.generate` has no number for a rollout, may return groups in any order, and dies as a
whole of what one rollout raises (a refused key, for one). It does hand the very rows that it was
given to `run_rollout` and `run_group`, and these say here what came of each.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from envops_worker.adapters.adapter import Trap
from envops_worker.adapters.rollout_errors import failure_raised, out_of_time
from envops_worker.failures import Sources

JOB = "envops_job"
_retries: ContextVar[list[int] | None] = ContextVar("retries", default=None)


class Ledger:
    """Which task and number each row that is handed to verifiers stands for."""

    def __init__(self, jobs: Sequence[tuple[dict[str, Any], int, int]]) -> None:
        self.rows = [row for row, _, _ in jobs]
        self._jobs = {id(row): (task, number) for row, task, number in jobs}
        self._states: dict[int, Any] = {}
        self._asked_again: dict[int, list[int]] = {}
        self._waiting: dict[Any, list[tuple[int, int]]] = {}
        for row, task, number in jobs:
            self._waiting.setdefault(row["example_id"], []).append((task, number))

    async def outcome(self, work: Awaitable[Any], arguments: Sequence[Any], limit: float) -> Any:
        """What a rollout or a group comes to.

        What it raises, and running out of time, become results that say so.
        """
        given = next((rows for rows in map(self._as_rows, arguments) if rows), [])
        try:
            async with asyncio.timeout(limit) as clock:
                outputs = await work
        except Exception as error:
            if not given:
                raise
            failure = out_of_time(limit) if clock.expired() else failure_raised(error, Sources())
            broken = [_broken(row, failure) for row in given]
            outputs = broken if any(isinstance(one, list) for one in arguments) else broken[0]
        for row, output in zip(given, outputs if isinstance(outputs, list) else [outputs], strict=False):
            output["envops_retries"] = sum(self._asked_again.get(id(row), ()))
            output[JOB] = self._jobs[id(row)]
        return outputs

    def watching(self, rollout: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """`Environment.rollout`, which has one row even where a group is run as a whole."""

        async def watched(*args: Any, **kwargs: Any) -> Any:
            row = next((one for one in (*args, *kwargs.values()) if id(one) in self._jobs), None)
            if row is None:
                return await rollout(*args, **kwargs)
            _retries.set(self._asked_again.setdefault(id(row), [0]))
            state = self._states[id(row)] = await rollout(*args, **kwargs)
            return state

        return watched

    def filed(self, trap: Trap, arguments: Sequence[Any], outputs: Any) -> None:
        """Tell each result what reward functions raised over its own conversation."""
        given = next((rows for rows in map(self._as_rows, arguments) if rows), [])
        listed = outputs if isinstance(outputs, list) else [outputs]
        alike = trap.taken_for if len(given) == len(listed) else None
        everything = None if alike else trap.taken()
        for position, output in enumerate(listed):
            state = self._states.pop(id(given[position]), None) if alike else None
            output["envops_failures"] = everything if alike is None else alike(id(state))

    def _as_rows(self, argument: Any) -> list[dict[str, Any]]:
        rows = argument if isinstance(argument, list) else [argument]
        return rows if all(id(row) in self._jobs for row in rows) else []

    def settled(self, output: Mapping[str, Any]) -> tuple[int, int]:
        """The task and number of a result; releases that copy their rows are followed by `example_id`."""
        waiting = self._waiting[output["example_id"]]
        job: tuple[int, int] = output[JOB] if JOB in output else waiting[0]
        if job in waiting:
            waiting.remove(job)
        return job


def _broken(row: Mapping[str, Any], failure: Mapping[str, Any]) -> dict[str, Any]:
    """A result in the shape that `generate` adds up; its zero is read by nobody but verifiers."""
    said = failure["message"]
    return {
        "example_id": row["example_id"],
        "task": row.get("task", ""),
        "prompt": row.get("prompt"),
        "completion": [],
        "answer": row.get("answer", ""),
        "info": row.get("info", {}),
        "reward": 0.0,
        "metrics": {},
        "error": {"error": failure["type"], "message": said, "error_chain_repr": said, "error_chain_str": said},
        "timing": {},
        "is_completed": True,
        "is_truncated": False,
        "stop_condition": None,
        "tool_defs": None,
        "envops_failure": dict(failure),
    }


def count_retries(client: Any) -> None:
    """Let the HTTP client below file each request that is one made again with its rollout.

    The openai client says so in a header of its own.
    """
    inner = getattr(client, "client", client)
    http = getattr(inner, "_client", None)

    async def counted(request: Any) -> None:
        asked_again = _retries.get()
        if asked_again is not None and int(request.headers.get("x-stainless-retry-count", "0")) > 0:
            asked_again[0] += 1

    with contextlib.suppress(AttributeError, KeyError):
        http.event_hooks["request"].append(counted)  # type: ignore[union-attr]


def seconds_of(timing: Any) -> float:
    """How long a rollout took, as the releases have it: `total_ms`, or `total` in seconds."""
    if not isinstance(timing, Mapping):
        return 0.0
    if timing.get("total") is not None:
        return float(timing["total"])
    return float(timing.get("total_ms") or 0.0) / 1000


def tokens_of(usage: Any) -> tuple[int, int] | None:
    """Tokens of prompts and replies, where the release counts them."""
    if not isinstance(usage, Mapping) or "input_tokens" not in usage:
        return None
    return int(usage["input_tokens"]), int(usage.get("output_tokens") or 0)
