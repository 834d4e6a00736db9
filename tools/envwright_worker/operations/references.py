"""Makes a field of the tasks the source of reference replies, or given replies, whose tasks it keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from envwright_worker.channel import JobRequest
from envwright_worker.messages import Message, says
from envwright_worker.operations.tasks import numbered
from envwright_worker.policies.oracle import ALONE, AskingAgent, FieldOracle, NoOracle, TaskOracle
from envwright_worker.session import Session


def answer(session: Session, request: JobRequest) -> None:
    """Set the oracle, before anything is scored: a reply has `task` and `turns`."""
    if "field" in request:
        tags = session.adapter.parser_tags()
        session.policies.oracle = FieldOracle(tuple(request["field"]), request["form"], tags, request["spelling"])
    if "spelled" in request and isinstance(session.policies.oracle, TaskOracle):
        session.policies.oracle.spelled.update(request["spelled"])
    if "replies" not in request:
        return
    replies = {reply["task"]: reply["turns"] for reply in request["replies"]}
    if "first" in request:  # the replies are to held-out tasks
        session.without_reference = list(session.kept.values())
        session.kept = {task.index: task for task in numbered(session, "eval", request)}
    session.without_reference += [task for index, task in session.kept.items() if index not in replies]
    session.kept = {index: task for index, task in session.kept.items() if index in replies}
    turns = {}
    for index, task in session.kept.items():
        shown = [message for message in task.prompt if message["role"] == "assistant"]
        turns[_content(task.data)] = [*shown, *replies[index]]
    session.policies.oracle = GivenReplies(turns)


class GivenReplies:
    """Replies that models gave, turn by turn."""

    derived = False
    states_answer = False

    def __init__(self, turns: Mapping[str, Sequence[Message]]) -> None:
        """The assistant's messages by the content of their task, those that its prompt shows first."""
        self._turns = turns

    def reply(self, task: Mapping[str, Any], messages: Sequence[Message], agent: AskingAgent = ALONE) -> Message:
        turns = self._turns.get(_content(task)) if agent.is_trained else None
        if turns is None:
            raise NoOracle("no reply of a model is known")
        number = sum(message["role"] == "assistant" for message in messages)
        return dict(turns[number]) if number < len(turns) else says("")


def _content(task: Mapping[str, Any]) -> str:
    return json.dumps(dict(task), sort_keys=True, default=str)
