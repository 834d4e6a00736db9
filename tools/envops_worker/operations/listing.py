"""Tasks as they come, without reading the data set whole, and what the oracle says first on them."""

from __future__ import annotations

from envops_worker.channel import JobRequest
from envops_worker.operations.tasks import task_facts
from envops_worker.session import Session


def answer(session: Session, request: JobRequest) -> None:
    """Send the first tasks; on the first of them also what the oracle says, where one reply is all there is."""
    asked = 0 if session.adapter.conversational else request["asked"]
    for position, task in enumerate(session.adapter.tasks("train", request["limit"])):
        session.kept[task.index] = task
        session.channel.item("task", task_facts(task))
        said = session.asked_oracle(task, request["seconds"]) if position < asked else None
        if said is not None:
            session.channel.item("said", {"task": task.index, "completion": [said]})
