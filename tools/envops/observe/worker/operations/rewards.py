"""Every policy on every kept task, scored twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..adapter import Job, TaskView
from ..channel import Request
from ..policies import Message, says, text_of
from ..session import Session, played_score


def answer(session: Session, request: Request) -> None:
    """Every policy on every kept task, scored twice."""
    if session.adapter.conversational:
        _play_policies(session, request)
        return
    for task in session.kept.values():
        for policy in request["policies"]:
            for completion in _completions(session, policy, task, request["seconds"]):
                session.score(task, policy, completion, request["seconds"])


def _completions(session: Session, policy: str, task: TaskView, seconds: float) -> Iterator[list[Message]]:
    perfect = session.asked_oracle(task, seconds)
    if perfect is None or policy == "oracle":
        if policy == "nop":
            yield [says("")]
        elif perfect is not None:
            yield [perfect]
        return
    if policy in ("near-miss", "format-only", "hedge"):
        for text in session.policies.distorted(policy, text_of(perfect), task.data):
            yield [says(text)]
    else:
        yield [session.policies.reply(policy, task.index, task.data, task.prompt)]


def _play_policies(session: Session, request: Request) -> None:
    """The same for environments that answer back: real rollouts instead of single replies."""
    tasks = list(session.kept.values())[: request["conversations"]]
    seconds = request["seconds"]
    names = [name for name in request["policies"] if name == "nop" or _has_form(session, name, tasks, seconds)]
    jobs = [Job(policy, task.index, 2 if policy == "oracle" else 1) for policy in names for task in tasks]
    pairs: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for row in session.rollouts(jobs, request["max_concurrent"], seconds * max(4, len(jobs) ** 0.5)):
        pairs.setdefault((row["task"], row["policy"]), []).append(row)
    for (index, policy), rows in pairs.items():
        session.played[index, policy] = rows[0]["reward"]
        again = [row["reward"] for row in rows[1:]] or [rows[0]["reward"]]
        session.channel.item("score", played_score(rows[0], again, session.policies.oracle.derived))


def _has_form(session: Session, policy: str, tasks: Sequence[TaskView], seconds: float) -> bool:
    if not tasks or session.asked_oracle(tasks[0], seconds) is None:
        return False
    return policy not in ("near-miss", "hedge") or session.policies.answer.type != "none"
