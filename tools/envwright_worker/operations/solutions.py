"""Searches the tasks' data for a field that is a right reply, such as a worked solution."""

from __future__ import annotations

from collections.abc import Sequence

from envwright_worker.adapters.adapter import TaskView
from envwright_worker.channel import JobRequest
from envwright_worker.failures import OutOfTime
from envwright_worker.messages import text_of
from envwright_worker.policies.answers import FieldPath, paths_of, value_at
from envwright_worker.policies.oracle import FORMS, FieldOracle, NoOracle
from envwright_worker.session import Session

USUAL = (
    *("answer", "solution", "canonical_solution", "reference_solution", "rationale", "ground_truth", "target", "label"),
    *("expected", "expected_output", "gold", "reference", "response", "output", "code", "completion", "result"),
)
"""The names of fields that are tried first."""
MOST_FIELDS = 16
LONGEST_VALUE = 20_000
SHORT = 12
"""Characters of a value that a prompt may contain: a choice is an answer all the same."""


def answer(session: Session, request: JobRequest) -> None:
    """Send the first field, in the first form, that earns the full reward on all tried tasks and on no wrong one.

    The value of another task in its place must earn less, because otherwise any reply would do.
    """
    tasks = list(session.kept.values())[: request["tasks"]]
    for path in _fields(tasks):
        for form in (*FORMS, *request["forms"]):
            if session.is_late:
                return
            if _is_right(session, tasks, FieldOracle(path, form, session.adapter.parser_tags()), request):
                session.channel.item("field", {"field": path, "form": form})
                return


def _fields(tasks: Sequence[TaskView]) -> list[FieldPath]:
    """Fields with a value in each task, several in all, which the prompts do not contain; the usual ones first."""
    found = []
    for path in paths_of(tasks[0].data, 2) if tasks else ():
        values = [value_at(task.data, path) for task in tasks]
        texts = [str(value) for value in values if isinstance(value, (str, int, float)) and value != ""]
        if len(texts) == len(tasks) and len({*texts}) > 1 and max(map(len, texts)) <= LONGEST_VALUE:
            prompts = ["\n".join(text_of(message) for message in task.prompt) for task in tasks]
            if not all(len(text) > SHORT and text in prompt for text, prompt in zip(texts, prompts, strict=True)):
                found.append(path)
    ranks = {name: rank for rank, name in enumerate(USUAL)}
    return sorted(found, key=lambda path: ranks.get(path[-1].lower(), len(ranks)))[:MOST_FIELDS]


def _is_right(session: Session, tasks: Sequence[TaskView], oracle: FieldOracle, request: JobRequest) -> bool:
    replies = []
    for task in tasks:
        try:
            replies.append([oracle.reply(task.data, task.prompt)])
        except NoOracle:
            return False
    if not all(_is_full(session, task, reply, request) for task, reply in zip(tasks, replies, strict=True)):
        return False
    around = zip(tasks, replies, [*replies[1:], *replies[:1]], strict=True)
    wrong = [(task, other) for task, own, other in around if other != own]
    paid = sum(_is_full(session, task, other, request) for task, other in wrong)
    return 2 * paid < len(wrong)


def _is_full(session: Session, task: TaskView, reply: list[dict[str, object]], request: JobRequest) -> bool:
    if session.is_late:
        return False
    try:
        scored = session.scored_once(task, reply, request["seconds"])
    except (Exception, OutOfTime):
        return False
    return scored["reward"] is not None and scored["reward"] >= request["full"]
