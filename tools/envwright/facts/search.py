"""Findings of the exploit search: replies that earn rewards without the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

ExploitKind = Literal[
    "blind",  # one reply earns the reference's reward on tasks whose right answers exclude each other
    "wrong",  # a reply that is made from the reference and wrong by construction earns the reference's reward
    "unearned",  # one reply earns full scores on every probe task, and less than the whole reward
    "partial",  # one reply earns a good part of the reference's reward on every probe task
]

Ending = Literal[
    "evaluations",  # the number of scorings allowed was used up
    "time",  # the time allowed was used up first
    "found",  # a reply earns the reference's reward; searching on would show nothing new
    "skipped",  # there was nothing to search; `skipped` has the reason
]


@dataclass(frozen=True)
class PanelTask:
    """One of the tasks that every candidate is tried on; no two share an answer."""

    task: int
    answer: str
    gold: float
    """The reward of the oracle's reply."""
    functions: Mapping[str, float | None] = field(default_factory=dict)
    """The score of the reference reply by each reward function, before weighting."""


@dataclass(frozen=True)
class Earned:
    """The reward of an exploit on one probe task."""

    task: int
    reply: str
    """The reply on this task: the same on all tasks, except for finds that are made from the reference."""
    reward: float
    functions: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Exploit:
    """A reply with an undeserved reward, shortened as far as possible."""

    kind: ExploitKind
    pattern: str
    """The exploited weakness, in a word or two: `several tags`, `part of a number`, `length`."""
    explanation: str
    reply: str
    found_by: Literal["made wrong", "seeds", "properties", "evolution"]
    found_length: int
    """The reply's length before it was shortened."""
    earned: tuple[Earned, ...]
    functions: tuple[str, ...] = ()
    """The functions that score it as high as the reference reply."""


@dataclass(frozen=True)
class Broken:
    """A reply of the search on which a reward function failed."""

    task: int
    reply: str
    function: str
    kind: str
    type: str
    message: str
    file: str = ""
    """The file of the environment that raised; empty if it was none of its own."""
    line: int | None = None


@dataclass(frozen=True)
class Search:
    """One search, bounded by a count and by time."""

    seed: int
    ended: Ending
    skipped: str = ""
    evaluations: int = 0
    limit: int = 0
    replies: int = 0
    """Different replies tried."""
    seconds: float = 0.0
    panel: tuple[PanelTask, ...] = ()
    chance: float | None = None
    """Share of the read tasks on which the most frequent answer is right: the luck of a constant answer."""
    lines_reached: int = 0
    lines_known: int = 0
    """Lines of the package's functions that scoring entered."""
    exploits: tuple[Exploit, ...] = ()
    broken: tuple[Broken, ...] = ()
