"""The first replies: the time of a reply, and whether conversations that never succeed end."""

from __future__ import annotations

from envwright_worker.channel import JobRequest
from envwright_worker.checks.pace import played_pace, scored_pace
from envwright_worker.session import Session


def answer(session: Session, request: JobRequest) -> None:
    if session.adapter.conversational:
        for kind, value in played_pace(session):
            session.channel.item(kind, value)
    elif (pace := scored_pace(session, request["seconds"])) is not None:
        session.channel.item("pace", pace)
    session.guard.attempts.clear()  # the stage that scores all replies reports them
