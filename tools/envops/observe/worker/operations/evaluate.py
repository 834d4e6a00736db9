"""Real rollouts of policies, compared with what in-process scoring gives the same conversation."""

from __future__ import annotations

from typing import Any

from ..adapter import Job
from ..channel import Request
from ..session import Session


def answer(session: Session, request: Request) -> None:
    indices = list(session.kept)[: request["tasks"]]
    jobs = [Job(policy, index, request["rollouts"]) for policy in request["policies"] for index in indices]
    for row in session.rollouts(jobs, request["max_concurrent"], request["seconds"]):
        row["predicted"] = _predicted(session, row, request["seconds"])
        session.channel.item("rollout", row)


def _predicted(session: Session, row: dict[str, Any], seconds: float) -> float | None:
    """What in-process scoring gives the conversation of a rollout."""
    if session.adapter.conversational:
        return session.played.get((row["task"], row["policy"])) if row["policy"] != "blend" else None
    if row["failure"] is not None:
        return None
    score = session.run(session.adapter.score(session.kept[row["task"]], [row["completion"]]), seconds)[0]
    reward: float | None = score["reward"]
    return reward
