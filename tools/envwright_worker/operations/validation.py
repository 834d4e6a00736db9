"""The package's own model-free check, if it has one."""

from __future__ import annotations

from typing import Any

from envwright_worker.channel import JobRequest
from envwright_worker.failures import OutOfTime
from envwright_worker.session import Session


def answer(session: Session, request: JobRequest) -> None:
    tasks = list(session.kept.values())[: request["limit"]]
    for position, task in enumerate(tasks):
        if session.is_late:
            session.cut("validation", "tasks", position, len(tasks))
            return
        answer: dict[str, Any] = {"task": task.index, "valid": None}
        try:
            answer["valid"] = session.run(session.adapter.validate(task), request["seconds"])
        except (Exception, OutOfTime) as error:
            answer["failure"] = session.sources.failure(error)
        if answer["valid"] is not None or "failure" in answer:  # tasks of another class may have a check
            session.channel.item("validation", answer)
