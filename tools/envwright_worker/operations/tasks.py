"""Keeps the first tasks of a split, and reads the whole datasets if their facts are needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from envwright_worker.adapters.adapter import TaskView
from envwright_worker.channel import JobRequest
from envwright_worker.checks.inspection import MAXIMUM_TASKS, DatasetReader, overlap
from envwright_worker.policies.answers import answer_of
from envwright_worker.session import Session


def answer(session: Session, request: JobRequest) -> None:
    limit, kept = request["keep"], request.get("split", "train")
    if not request.get("facts", True):
        session.kept = {task.index: task for task in session.adapter.tasks("train", limit)}
        return
    readers = {split: DatasetReader(split, session.adapter.conversational) for split in ("train", "eval")}

    def keep(task: TaskView) -> None:
        if len(session.kept) < limit:
            session.kept[task.index] = task
            session.channel.item("task", task_facts(task))

    for split, reader in readers.items():
        each = keep if split == kept else lambda _: None
        reader.read(session.adapter.tasks(split, MAXIMUM_TASKS), each, lambda: session.is_late)
        facts = reader.facts(None if session.adapter.infinite or not reader.is_whole else len(reader))
        if not reader.is_whole:
            session.cut("tasks", f"tasks of the {split} split", len(reader), 0)
        if split == "train" or len(reader):
            session.channel.item("dataset", facts)
    pairs = list(overlap(readers["train"], readers["eval"]))
    session.channel.item("overlap", {"pairs": pairs[:20], "count": len(pairs)})


def numbered(session: Session, split: str, request: JobRequest) -> Iterator[TaskView]:
    """The first `limit` tasks of a split; their indices begin with the request's `first`, if it has one."""
    for task in session.adapter.tasks(split, request["limit"]):
        yield replace(task, index=request.get("first", 0) + task.index)


def task_facts(task: TaskView) -> dict[str, Any]:
    return {"index": task.index, "prompt": task.prompt, "answer": answer_of(task.data), "data": task.data}
