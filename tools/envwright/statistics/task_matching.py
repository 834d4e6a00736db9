"""Matching of tasks between two versions of an environment, by content and not by index.

The evidence, surest first: the same prompt with the same answer; the same hidden data; the same prompt with another
answer; the same place with the same answer. Each task is matched once; the others have no counterpart.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from envwright.facts.results import without_folder

if TYPE_CHECKING:
    from envwright_worker.messages import Message

    from envwright.facts.observed import Task

NUMBERING = frozenset({"idx", "index", "id", "example_id", "prompt", "system_prompt", "task", "split"})
"""Fields about a task's position or prompt, not its content."""
SideName = Literal["before", "after"]

Value = TypeVar("Value")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Match:
    """One task on both sides."""

    tasks: TwoSides[Task]
    by: str
    """The evidence by which they were matched."""

    @property
    def prompts_differ(self) -> bool:
        before, after = self.tasks.each(lambda task: without_folder(spoken(task.prompt)))
        return before != after


@dataclass(frozen=True)
class Matching:
    """The matching of both sides' tasks."""

    matches: tuple[Match, ...]
    unmatched: TwoSides[tuple[int, ...]]
    """Indices without a counterpart."""


def match_tasks(before: Iterable[Task], after: Iterable[Task]) -> Matching:
    """Pair the tasks of both sides, the surest evidence first."""
    left_before, left_after = list(before), list(after)
    matches: list[Match] = []
    for by, key in _KEYS:
        found = _pairs(left_before, left_after, key)
        matches += [Match(TwoSides(one, other), by) for one, other in found]
        taken_before, taken_after = {one.index for one, _ in found}, {other.index for _, other in found}
        left_before = [task for task in left_before if task.index not in taken_before]
        left_after = [task for task in left_after if task.index not in taken_after]
    matches.sort(key=lambda match: match.tasks.after.index)
    unmatched = TwoSides(left_before, left_after).each(lambda tasks: tuple(task.index for task in tasks))
    return Matching(tuple(matches), unmatched)


def spoken(prompt: Sequence[Message]) -> str:
    """A prompt as text; equal exactly if the model sees the same."""
    return "\n".join(f"[{message.get('role')}] {_content(message)}" for message in prompt)


def _content(message: Message) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else json.dumps(content, sort_keys=True, default=str)


_Key = Callable[["Task"], Hashable | None]


def _pairs(base: Sequence[Task], head: Sequence[Task], key: _Key) -> list[tuple[Task, Task]]:
    """Tasks with equal keys; of several, those at the same place first and the others in order."""
    waiting: dict[Hashable, list[Task]] = defaultdict(list)
    for task in base:
        if (found := key(task)) is not None:
            waiting[found].append(task)
    pairs = []
    for task in head:
        if candidates := waiting.get(key(task)):
            same = next((candidate for candidate in candidates if candidate.index == task.index), candidates[0])
            candidates.remove(same)
            pairs.append((same, task))
    return pairs


_KEYS: tuple[tuple[str, _Key], ...] = (
    ("prompt and data", lambda task: (_words(task), _answer(task), _hidden(task)) if task.prompt else None),
    ("prompt and answer", lambda task: (_words(task), _answer(task)) if task.prompt else None),
    ("data", lambda task: _hidden(task) or None),
    ("prompt", lambda task: _words(task) if task.prompt else None),
    ("place and answer", lambda task: None if task.answer is None else (task.index, _answer(task))),
)
"""The name of each kind of evidence, and its key; `None` where a task has none."""


def _words(task: Task) -> str:
    """The prompt without regard to whitespace and to the system prompt."""
    words = (" ".join(_content(one).split()) for one in task.prompt if one.get("role") != "system")
    return without_folder("\n".join(words))


def _answer(task: Task) -> str:
    return _plain(task.answer).strip()


def _hidden(task: Task) -> str:
    """The data beside position and prompt; empty without any."""
    hidden = {name: value for name, value in task.data.items() if name not in NUMBERING}
    return _plain(hidden) if hidden else ""


def _plain(value: Any) -> str:
    return without_folder(value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str))


@dataclass(frozen=True)
class TwoSides(Generic[Value]):
    """A pair of values, one for each side."""

    before: Value
    after: Value

    def __iter__(self) -> Iterator[Value]:
        yield self.before
        yield self.after

    @property
    def named(self) -> tuple[tuple[SideName, Value], tuple[SideName, Value]]:
        return ("before", self.before), ("after", self.after)

    def each(self, function: Callable[[Value], Result]) -> TwoSides[Result]:
        return TwoSides(function(self.before), function(self.after))
