"""What reward functions were called with, so that they can be called again without verifiers around them.

Preparing a conversation and walking through a rubric costs several times what the functions
themselves do. Where a changed function says the same to the same arguments, all around it says the
same as well; only where it does not need the whole be asked.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

LOOKED_AT = 12
"""So many first calls of every function are looked at for whether it writes to its arguments."""
LOOKED_AT_EVERY = 16
"""And one of so many later ones: to look costs more than to call."""


class Waits(Exception):
    """A coroutine waits for something."""


@dataclass(frozen=True)
class Call:
    """One call of a reward function or metric, and what it returned."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    value: Any

    def repeats(self) -> bool:
        """Whether it returns the same to the same arguments now, without waiting for anything."""
        try:
            value = self.function(*self.args, **self.kwargs)
            if inspect.iscoroutine(value):
                value = at_once(value)
        except (Exception, SystemExit):
            return False
        return _same(self.value, value)


class CallRecorder:
    """Takes down the calls of reward functions while somebody wants to know them."""

    def __init__(self) -> None:
        self._taken: list[Call] | None = None
        self._missed = 0
        self._seen: dict[int, int] = {}
        self._writing: set[int] = set()

    @property
    def saw_writing(self) -> bool:
        """Whether a function was seen to write to its arguments."""
        return bool(self._writing)

    @contextmanager
    def taken(self) -> Iterator[list[Call]]:
        """The calls made in the block, known at its end: none where one could not be made again. Blocks nest."""
        calls: list[Call] = []
        outer = self._taken, self._missed
        self._taken, self._missed = [], 0
        try:
            yield calls
        finally:
            taken, missed = self._taken, self._missed
            self._taken, self._missed = outer
            if self._taken is not None:
                self._taken += taken
                self._missed += missed
            if not missed and all(_key(call.function) not in self._writing for call in taken):
                calls += taken

    def before(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """To be handed to `after`: how the arguments look, where that is looked at; `None` where nobody asks."""
        if self._taken is None:
            return None
        self._missed += 1
        seen = self._seen.get(_key(function), 0)
        self._seen[_key(function)] = seen + 1
        return _looks(args, kwargs) if seen < LOOKED_AT or seen % LOOKED_AT_EVERY == 0 else ""

    def after(
        self,
        looked: str | None,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        value: Any,
    ) -> None:
        """The call returned."""
        if looked is None or self._taken is None:
            return
        self._missed -= 1
        self._taken.append(Call(function, args, kwargs, value))
        if looked and looked != _looks(args, kwargs):
            self._writing.add(_key(function))


def all_repeat(calls: Sequence[Call]) -> bool:
    """Whether every function says again what it said; not where there is nothing to ask."""
    return bool(calls) and all(call.repeats() for call in calls)


def _key(function: Any) -> int:
    """The same for a method of every task."""
    return id(getattr(function, "__func__", function))


def _looks(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    try:
        return repr((args, kwargs))
    except Exception as error:
        return f"{type(error).__name__} {id(error)}"  # looks otherwise every time


def at_once(work: Any) -> Any:
    """What a coroutine returns that waits for nothing.

    Raises `Waits`, and whatever the coroutine does.
    """
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    finally:
        work.close()
    raise Waits


def _same(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_same(value, second[key]) for key, value in first.items())
    if isinstance(first, float) and math.isnan(first):
        return math.isnan(second)
    return isinstance(first, (bool, int, float, str, type(None))) and first == second
