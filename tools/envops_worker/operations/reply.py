"""One reply on one task, told in full: what was read out of it and what each function gave."""

from __future__ import annotations

from typing import Any

from envops_worker.adapters.adapter import Job
from envops_worker.channel import Request
from envops_worker.checks.inspection import MAXIMUM_TASKS
from envops_worker.extraction import extracted
from envops_worker.failures import OutOfTime
from envops_worker.messages import says
from envops_worker.operations.tasks import task_facts
from envops_worker.policies.policies import SCRIPT_PREFIX
from envops_worker.session import Session


def answer(session: Session, request: Request) -> None:
    """Score the turns, as one reply or as the script of a rollout; where no such task is, say how many are."""
    count = 0
    for task in session.adapter.tasks("train", min(request["task"] + 1, MAXIMUM_TASKS)):
        session.kept[task.index] = task
        count += 1
    found = session.kept.get(request["task"])
    if found is None:
        session.channel.item("missing", {"count": count, "infinite": session.adapter.infinite})
        return
    session.channel.item("task", task_facts(found))
    score = _scored(session, request)
    session.channel.item("replied", score)
    session.channel.item("extracted", extracted(session.adapter, found.data, score["completion"]))


def _scored(session: Session, request: Request) -> dict[str, Any]:
    index, seconds = request["task"], request["seconds"]
    script = [says(turn) for turn in request["turns"]]
    if not session.adapter.conversational:
        return {"again": [], **session.scored(session.kept[index], "given", script, seconds)}
    name = f"{SCRIPT_PREFIX}reply"
    session.policies.scripts[name] = script
    try:
        (row,) = session.rollouts([Job(name, index)], 1, seconds * 4)
    except OutOfTime as error:
        return session.unscored(session.kept[index], "given", script, error)
    return {**row, "policy": "given"}
