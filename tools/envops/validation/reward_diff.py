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
from envops.statistics.reward_comparison import ScoredReply, Scoring
from envops.statistics.two_sides import SideName, TwoSides
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

Result = TypeVar("Result")
Counterpart = Callable[[int], int | None]


class SideFailed(Exception):
    """One of the two versions could not be loaded, or its worker was lost."""

    def __init__(self, side: SideName, cause: StageFailed | ProgramFailed) -> None:
        self.side = side
        self.failure = cause.failure
        super().__init__(f"{side}: {cause.failure.message}")


@dataclass
class Corpus:
    """The replies to be scored by both versions, each once, with what could not be used."""

    replies: list[tuple[Reply, TwoSides[int]]] = field(default_factory=list)
    """Each reply with its task in both versions."""
    unmatched: int = 0
    left_out: int = 0
    _seen: set[str] = field(default_factory=set)

    def add(self, replies: Iterable[Reply], counterparts: TwoSides[Counterpart]) -> None:
        """Take each reply that is new and whose task both sides have."""
        for reply in replies:
            before, after = counterparts.before(reply.task), counterparts.after(reply.task)
            key = json.dumps([before, after, reply.task, _turns(reply)], sort_keys=True, default=str)
            if key in self._seen:
                continue
            self._seen.add(key)
            if before is None or after is None:
                self.unmatched += 1
            else:
                self.replies.append((reply, TwoSides(before, after)))

    def bound(self) -> None:
        """Keep within the limits, fairly to everyone who spoke."""
        by_speaker: dict[str, list[tuple[Reply, TwoSides[int]]]] = defaultdict(list)
        for entry in self.replies:
            by_speaker[entry[0].said_by].append(entry)
        kept: list[tuple[Reply, TwoSides[int]]] = []
        size = 0
        for entry in filter(None, chain.from_iterable(zip_longest(*by_speaker.values()))):
            size += len(json.dumps(entry[0].completion, default=str))
            if len(kept) < MOST_REPLIES and size <= MOST_BYTES:
                kept.append(entry)
        self.left_out = len(self.replies) - len(kept)
        order = {id(entry): position for position, entry in enumerate(self.replies)}
        self.replies = sorted(kept, key=lambda entry: order[id(entry)])


def open_both(scorers: TwoSides[Scorer], stop: threading.Event) -> None:
    """Load both versions at the same time. Raises `SideFailed`."""
    side_by_side(TwoSides(*(_tried(name, scorer.open) for name, scorer in scorers.named)), stop)


def corpus_of(scorers: TwoSides[Scorer], facts: Facts, after_to_before: Mapping[int, int]) -> Corpus:
    """Every reply of the working tree, and those of the base's own cases and oracle."""
    base, head = scorers
    before_to_after = {there: here for here, there in after_to_before.items()}
    corpus = Corpus()
    here = chain(
        replies_of_cases(head.package.cases, head.listing.tasks),
        replies_of(facts),
        replies_of_recordings(head.package.folder, head.listing.tasks),
    )
    corpus.add(here, TwoSides(after_to_before.get, lambda index: index))
    there = chain(replies_of_cases(base.package.cases, base.listing.tasks), base.listing.said)
    corpus.add(there, TwoSides(lambda index: index, before_to_after.get))
    corpus.bound()
    return corpus


def score_both(corpus: Corpus, scorers: TwoSides[Scorer], stop: threading.Event) -> list[ScoredReply]:
    """The whole corpus, scored by both versions at the same time. Raises `SideFailed`."""

    def scoring(name: SideName, scorer: Scorer) -> Callable[[], list[Rescored]]:
        replies = [Reply(reply.said_by, getattr(tasks, name), reply.completion) for reply, tasks in corpus.replies]
        return _tried(name, lambda: scorer.score(replies))

    scored = side_by_side(TwoSides(*(scoring(name, scorer) for name, scorer in scorers.named)), stop)
    return [
        ScoredReply(reply.said_by, tasks, reply.completion, TwoSides(before, after).each(_scoring))
        for (reply, tasks), before, after in zip(corpus.replies, *scored, strict=True)
    ]


def _scoring(rescored: Rescored) -> Scoring:
    return Scoring(rescored.reward, rescored.functions, rescored.problem)


def _tried(side: SideName, call: Callable[[], Result]) -> Callable[[], Result]:
    def tried() -> Result:
        try:
            return call()
        except (StageFailed, ProgramFailed) as error:
            raise SideFailed(side, error) from error

    return tried


def _turns(reply: Reply) -> list[Message]:
    return [
        {"content": message.get("content") or "", "tool_calls": message.get("tool_calls")}
        for message in reply.completion
        if message.get("role") == "assistant"
    ]
