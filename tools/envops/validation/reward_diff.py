"""Two versions of an environment, observed side by side: tasks paired, one corpus scored by both."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import TypeVar

from envops.facts.observed import Facts, Message
from envops.system.subprocesses import ProgramFailed
from envops.validation.job import StageFailed
from envops.validation.rescoring import (
    MOST_BYTES,
    MOST_REPLIES,
    Reply,
    Rescored,
    Scorer,
    replies_of,
    replies_of_cases,
    replies_of_recordings,
    side_by_side,
)

Answer = TypeVar("Answer")
Counterpart = Callable[[int], int | None]


class SideFailed(Exception):
    """One of the two versions could not be loaded, or its worker was lost."""

    def __init__(self, side: str, cause: StageFailed | ProgramFailed) -> None:
        self.side = side
        self.failure = cause.failure
        super().__init__(f"{side}: {cause.failure.message}")


@dataclass(frozen=True)
class Exchanged:
    """A reply of the corpus on both sides' task, and what each side said to it."""

    said_by: str
    base_task: int
    head_task: int
    completion: tuple[Message, ...]
    base: Rescored
    head: Rescored


@dataclass
class Corpus:
    """The replies to be scored by both versions, each once, with what could not be used."""

    replies: list[tuple[Reply, int, int]] = field(default_factory=list)
    """Reply, its task at the base, its task here."""
    unmatched: int = 0
    left_out: int = 0
    _seen: set[str] = field(default_factory=set)

    def add(self, replies: Iterable[Reply], to_base: Counterpart, to_head: Counterpart) -> None:
        """Take each reply that is new and whose task both sides have."""
        for reply in replies:
            base, head = to_base(reply.task), to_head(reply.task)
            key = json.dumps([base, head, reply.task, _turns(reply)], sort_keys=True, default=str)
            if key in self._seen:
                continue
            self._seen.add(key)
            if base is None or head is None:
                self.unmatched += 1
            else:
                self.replies.append((reply, base, head))

    def bound(self) -> None:
        """Keep within the limits, fairly to everyone who spoke."""
        by_speaker: dict[str, list[tuple[Reply, int, int]]] = defaultdict(list)
        for entry in self.replies:
            by_speaker[entry[0].said_by].append(entry)
        kept: list[tuple[Reply, int, int]] = []
        size = 0
        for entry in filter(None, chain.from_iterable(zip_longest(*by_speaker.values()))):
            size += len(json.dumps(entry[0].completion, default=str))
            if len(kept) < MOST_REPLIES and size <= MOST_BYTES:
                kept.append(entry)
        self.left_out = len(self.replies) - len(kept)
        order = {id(entry): position for position, entry in enumerate(self.replies)}
        self.replies = sorted(kept, key=lambda entry: order[id(entry)])


def open_both(base: Scorer, head: Scorer, stop: threading.Event) -> None:
    """Load both versions at the same time. Raises `SideFailed`."""
    side_by_side(lambda: _tried("base", base.open), lambda: _tried("head", head.open), stop)


def corpus_of(base: Scorer, head: Scorer, facts: Facts, head_to_base: Mapping[int, int]) -> Corpus:
    """Everything that was said here, and what the base's own cases and oracle say."""
    base_to_head = {there: here for here, there in head_to_base.items()}
    corpus = Corpus()
    here = chain(
        replies_of_cases(head.package.cases, head.listing.tasks),
        replies_of(facts),
        replies_of_recordings(head.package.folder, head.listing.tasks),
    )
    corpus.add(here, head_to_base.get, lambda index: index)
    there = chain(replies_of_cases(base.package.cases, base.listing.tasks), base.listing.said)
    corpus.add(there, lambda index: index, base_to_head.get)
    corpus.bound()
    return corpus


def exchange(corpus: Corpus, base: Scorer, head: Scorer, stop: threading.Event) -> list[Exchanged]:
    """Both versions' scores of the whole corpus, at the same time. Raises `SideFailed`."""
    for_base = [Reply(reply.said_by, task, reply.completion) for reply, task, _ in corpus.replies]
    for_head = [Reply(reply.said_by, task, reply.completion) for reply, _, task in corpus.replies]
    at_base, at_head = side_by_side(
        lambda: _tried("base", lambda: base.score(for_base)),
        lambda: _tried("head", lambda: head.score(for_head)),
        stop,
    )
    return [
        Exchanged(reply.said_by, base_task, head_task, reply.completion, before, after)
        for (reply, base_task, head_task), before, after in zip(corpus.replies, at_base, at_head, strict=True)
    ]


def _tried(side: str, call: Callable[[], Answer]) -> Answer:
    try:
        return call()
    except (StageFailed, ProgramFailed) as error:
        raise SideFailed(side, error) from error


def _turns(reply: Reply) -> list[Message]:
    return [
        {"content": message.get("content") or "", "tool_calls": message.get("tool_calls")}
        for message in reply.completion
        if message.get("role") == "assistant"
    ]
