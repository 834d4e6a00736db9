"""What reward functions were called with, so that they can be called again without verifiers around them.

Preparing a conversation and walking through a rubric costs several times what the functions
themselves do. Where a changed function says the same to the same arguments, all around it says the
same as well; only where it does not need the whole be asked.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Arguments = tuple[Sequence[Any], Mapping[str, Any]]


class Waits(Exception):
    """A coroutine waits for something."""


@dataclass(frozen=True)
class Call:
    """One call of a reward function or metric, and what it returned."""

    function: Callable[..., Any]
    arguments: Arguments
    """As they were before it."""
    value: Any

    def repeats(self) -> bool | None:
        """Whether it returns the same to the same arguments now; `None` where it waits for something."""
        args, kwargs = copied(self.arguments)
        try:
            value = self.function(*args, **kwargs)
            if inspect.iscoroutine(value):
                value = at_once(value)
        except Waits:
            return None
        except (Exception, SystemExit):
            return False
        return _same(self.value, value)


class CallRecorder:
    """Takes down the calls of reward functions while somebody wants to know them."""

    def __init__(self) -> None:
        self._taken: list[Call] | None = None
        self._of_no_use = 0

    @contextmanager
    def taken(self) -> Iterator[list[Call]]:
        """The calls made in the block, known at its end.

        There are none where one raised, or wrote to what it was given: others may have read that.
        """
        calls: list[Call] = []
        self._taken, self._of_no_use = [], 0
        try:
            yield calls
        finally:
            calls += [] if self._of_no_use else self._taken
            self._taken = None

    def before(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments | None:
        """To be handed to `after`: the arguments as they are now; `None` where nobody asks."""
        if self._taken is None:
            return None
        self._of_no_use += 1
        arguments: Arguments = copied((args, kwargs))
        return arguments

    def after(self, before: Arguments | None, function: Callable[..., Any], now: Arguments, value: Any) -> None:
        """The call returned."""
        if before is None or self._taken is None:
            return
        self._taken.append(Call(function, before, value))
        if _unchanged(before, now):
            self._of_no_use -= 1


def all_repeat(calls: Sequence[Call]) -> bool:
    """Whether every function says again what it said; not where there is nothing to ask."""
    return bool(calls) and all(call.repeats() for call in calls)


def copied(value: Any, known: dict[int, Any] | None = None) -> Any:
    """The same with containers of its own, however deep and as often as they are there; what they hold is shared."""
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)]
    kind = type(value)
    if kind is list:
        mine = known[id(value)] = []
        mine += [copied(item, known) for item in value]
        return mine
    if kind is tuple:
        return tuple(copied(item, known) for item in value)
    if kind is set:
        known[id(value)] = set(value)
        return known[id(value)]
    if isinstance(value, dict):
        ours = known[id(value)] = {} if kind is dict else copy.copy(value)
        dict.update(ours, {key: copied(item, known) for key, item in dict.items(value)})
        return ours
    return value


def _unchanged(before: Arguments, now: Arguments) -> bool:
    try:
        return bool(before == now)
    except Exception:
        return False


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
