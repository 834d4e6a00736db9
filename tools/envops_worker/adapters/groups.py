"""Rewards that compare the replies to one task are scored as training scores them: together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envops_worker.adapters.adapter import TaskView
from envops_worker.failures import OutOfTime
from envops_worker.messages import Message
from envops_worker.session import Session

Reply = tuple[str, list[Message]]
"""Who said it, and what."""


def score_together(session: Session, task: TaskView, replies: Sequence[Reply], seconds: float) -> None:
    """Score the replies of all policies as one group, on the first tasks twice.

    Gold stands there among wrong replies; it is shown in the company, mixed or alone, in which
    it earns more, since either occurs in training.
    """
    completions = [completion for _, completion in replies]
    twice = session.is_scored_twice("oracle")
    try:
        first, *again = (session.run(session.adapter.score(task, completions), seconds) for _ in range(1 + twice))
    except OutOfTime:
        for policy, completion in replies:  # which of them takes so long
            session.score(task, policy, completion, seconds)
        return
    for position, ((policy, completion), one) in enumerate(zip(replies, first, strict=True)):
        row: dict[str, Any] = {"task": task.index, "policy": policy, "completion": completion, **one}
        others = [group[position]["reward"] for group in again]
        row |= {"again": others, "derived": session.policies.oracle.derived}
        if policy == "oracle":
            alone = session.scored(task, policy, completion, seconds, twice=twice)
            row = max(row, alone, key=lambda scored: float("-inf") if scored["reward"] is None else scored["reward"])
        session.channel.item("score", row)
