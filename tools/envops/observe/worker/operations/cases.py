"""The author's cases: one reply, or the turns of a scripted rollout, each."""

from __future__ import annotations

from typing import Any

from ..adapter import Job, TaskView
from ..channel import Request
from ..failures import OutOfTime
from ..inspection import MAXIMUM_TASKS
from ..policies import SCRIPT_PREFIX, says
from ..session import Session, played_score

SEARCHED_FOR_CASES = 5_000


def answer(session: Session, request: Request) -> None:
    for number, case in enumerate(request["cases"]):
        facts: dict[str, Any] = {
            "name": case["name"],
            "line": case["line"],
            "expect": case["expect"],
            "score": None,
        }
        try:
            task = _task_of_case(session, case["task"])
            facts["score"] = _case_score(session, number, task, case["reply"], request)
        except (Exception, OutOfTime) as error:
            facts["failure"] = session.sources.failure(error)
        session.channel.item("case", facts)


def _task_of_case(session: Session, wanted: Any) -> TaskView:
    limit = min(wanted + 1, MAXIMUM_TASKS) if isinstance(wanted, int) else SEARCHED_FOR_CASES
    if isinstance(wanted, int) and wanted in session.kept:
        return session.kept[wanted]
    searched = 0
    for task in session.adapter.tasks("train", limit):
        searched += 1
        if task.index == wanted or (isinstance(wanted, dict) and wanted.items() <= task.data.items()):
            session.kept.setdefault(task.index, task)
            return task
    raise LookupError(f"no task is {wanted!r} among the first {searched}")


def _case_score(session: Session, number: int, task: TaskView, reply: Any, request: Request) -> dict[str, Any]:
    turns = [reply] if isinstance(reply, str) else reply
    script = [says(turn) if isinstance(turn, str) else {"role": "assistant", "content": "", **turn} for turn in turns]
    if not session.adapter.conversational:
        return session.scored(task, "case", script, request["seconds"])
    name = f"{SCRIPT_PREFIX}{number}"
    session.policies.scripts[name] = script
    rows = list(session.rollouts([Job(name, task.index)], 1, request["seconds"] * 4))
    return played_score(rows[0], [], derived=False) | {"policy": "case"}
