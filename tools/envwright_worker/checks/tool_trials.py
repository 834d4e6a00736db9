"""Tools that no reply called are called in rollouts, with arguments that their schemas allow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from envwright_worker.adapters.adapter import TaskView, ToolUse
from envwright_worker.failures import shortened
from envwright_worker.messages import says
from envwright_worker.policies.oracle import trial_call
from envwright_worker.session import Session

TASKS = 2
CALLS = 2
"""The number of calls of a tool on each task."""
MOST_TOOLS = 20
LONGEST_RESULT = 300


def tool_trials(session: Session, tasks: Sequence[TaskView], at_once: int, seconds: float) -> Iterator[dict[str, Any]]:
    """The calls of each offered tool, in the shape of `envwright.facts.observed`."""
    made: dict[str, list[ToolUse]] = defaultdict(list)
    for call in session.adapter.taken_tool_calls():
        made[call.tool].append(call)
    offered = session.endpoint.notes.tools
    jobs = [
        session.scripted(task.index, [says("") | {"tool_calls": [trial_call(tool, task.data, task.prompt, number)]}])
        for tool in [tool for name, tool in offered.items() if name not in made][:MOST_TOOLS]
        for task in tasks[:TASKS]
        for number in range(CALLS)
    ]
    for _ in session.rollouts(jobs, at_once, seconds) if jobs else ():
        pass  # the adapter notes the calls
    for call in session.adapter.taken_tool_calls():
        made[call.tool].append(call)
    yield from (_trial(name, made[name]) for name in offered)


def _trial(name: str, calls: Sequence[ToolUse]) -> dict[str, Any]:
    failed = [call for call in calls if call.failure is not None]
    results = {_without_arguments(call) for call in calls if call.failure is None}
    shown = (failed or list(calls) or [ToolUse(name, {})])[0]
    return {
        "name": name,
        "calls": len(calls),
        "failed": len(failed),
        "results": len(results),
        "arguments": shown.arguments,
        "result": shortened(shown.result, LONGEST_RESULT),
        "failure": shown.failure,
    }


def _without_arguments(call: ToolUse) -> str:
    """The result without the values that it was given: "no item a" is the same as "no item b"."""
    text = call.result
    for value in sorted(map(str, call.arguments.values()), key=len, reverse=True):
        text = text.replace(value, "…") if value else text
    return text
