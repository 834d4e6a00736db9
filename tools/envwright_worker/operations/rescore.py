"""Scores given replies by this environment's code."""

from __future__ import annotations

import itertools
from typing import Any

from envwright_worker.channel import JobRequest
from envwright_worker.failures import OutOfTime
from envwright_worker.session import Session, shortened_messages


def answer(session: Session, request: JobRequest) -> None:
    """Score each reply on its task; the tasks were listed before.

    Replies of one `group` are scored together if rewards compare the replies to a task. In a multi-turn environment the
    assistant's turns are played as a scripted rollout.
    """
    if session.adapter.conversational:
        _play(session, request)
        return
    if session.adapter.grouped and any("group" in reply for reply in request["replies"]):
        _score_groups(session, request)
        return
    for reply in request["replies"]:
        if session.is_late:
            return
        completion = shortened_messages(reply["completion"])
        session.channel.be_about({"task": reply["task"], "policy": "given", "completion": completion})
        session.channel.item("rescored", {"id": reply["id"], **_scored(session, reply, request["seconds"])})


def _scored(session: Session, reply: dict[str, Any], seconds: float) -> dict[str, Any]:
    task = session.kept[reply["task"]]
    try:
        score: dict[str, Any] = session.run(session.adapter.score(task, [reply["completion"]]), seconds)[0]
    except (Exception, OutOfTime) as error:
        return {"reward": None, "functions": {}, "failure": session.sources.failure(error)}
    return score


def _score_groups(session: Session, request: JobRequest) -> None:
    for _, together in itertools.groupby(request["replies"], key=lambda reply: reply["group"]):
        group = list(together)
        task = session.kept[group[0]["task"]]
        scoring = session.adapter.score(task, [reply["completion"] for reply in group])
        try:
            scores = session.run(scoring, request["seconds"])
        except (Exception, OutOfTime) as error:
            failed = {"reward": None, "functions": {}, "failure": session.sources.failure(error)}
            scores = [failed] * len(group)
        for reply, score in zip(group, scores, strict=True):
            session.channel.item("rescored", {"id": reply["id"], **score})


def _play(session: Session, request: JobRequest) -> None:
    numbers, jobs = {}, []
    for reply in request["replies"]:
        script = [turn for turn in reply["completion"] if turn["role"] == "assistant"]
        jobs.append(session.scripted(reply["task"], script))
        numbers[jobs[-1].policy] = reply["id"]
    for row in session.rollouts(jobs, request["max_concurrent"], request["seconds"] * max(4, len(jobs) ** 0.5)):
        session.channel.item("rescored", {"id": numbers[row["policy"]], **row})
    for name in numbers:
        del session.policies.scripts[name]
