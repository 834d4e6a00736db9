"""What reward functions were called with, so that they can be called again without verifiers around them.

Preparing a conversation and walking through a rubric costs several times what the functions
themselves do. Where a changed function says the same to the same arguments, all around it says the
same as well; only where it does not need the whole be asked.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

Arguments = tuple[Sequence[Any], Mapping[str, Any]]
_whole: set[type] = {str, int, float, bool, bytes, type(None)}
"""Kinds that are no containers: what `copied` shares. The others that it meets are added."""


class Waits(Exception):
    """A coroutine waits for something."""


@dataclass(frozen=True)
class Call:
    """One call of a reward function or metric, and what it returned."""

    function: Callable[..., Any]
    arguments: Arguments
    """As they were before it."""
    value: Any

    def repeats(self, arguments: Arguments) -> bool | None:
        """Whether it returns the same to these arguments now; `None` where it waits for something."""
        args, kwargs = arguments
        try:
            value = self.function(*args, **kwargs)
            if inspect.iscoroutine(value):
                value = at_once(value)
        except Waits:
            return None
        except (Exception, SystemExit):
            return False
        return _same(self.value, value)


class Calls:
    """The calls that one reply was scored by, in their order."""

    def __init__(self) -> None:
        self.made: list[Call] = []
        self._copies: list[Arguments] | None = None
        """What is equal to the arguments, and may be handed to the functions."""

    def __bool__(self) -> bool:
        return bool(self.made)

    def repeat(self) -> list[bool | None]:
        """Whether each of them says the same now; none do where one of them writes to what it is given."""
        return self._asked(every=True)

    def all_repeat(self) -> bool:
        """Whether every function says again what it said; not where there is nothing to ask."""
        return self.made != [] and all(self._asked(every=False))

    def _asked(self, *, every: bool) -> list[bool | None]:
        arguments = [call.arguments for call in self.made]
        copies, self._copies = self._copies or copied(arguments), None
        said = list[bool | None]()
        for call, copy_of_its in zip(self.made, copies, strict=True):
            said.append(call.repeats(copy_of_its))
            if not said[-1] and not every:
                break
        if not _equal(arguments, copies):
            return [False] * len(said)
        self._copies = copies
        return said


class CallRecorder:
    """Takes down the calls of reward functions while somebody wants to know them."""

    def __init__(self) -> None:
        self._taken: Calls | None = None
        self._of_no_use = 0
        self._snapshot: dict[int, tuple[Any, Any]] = {}
        """What the call before this one was given, and copies of it, by the identity of the former."""

    @contextmanager
    def taken(self) -> Iterator[Calls]:
        """The calls made in the block, known at its end.

        There are none where one raised, or wrote to what it was given: others may have read that.
        """
        calls = Calls()
        self._taken, self._of_no_use, self._snapshot = calls, 0, {}
        try:
            yield calls
        finally:
            if self._of_no_use:
                calls.made.clear()
            self._taken, self._snapshot = None, {}

    def before(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments | None:
        """To be handed to `after`: the arguments as they are now; `None` where nobody asks.

        What did not change since the call before is not copied again; nobody sees where an equal thing was put.
        """
        if self._taken is None:
            return None
        self._of_no_use += 1
        given = [(value, id(value)) for value in (*args, *kwargs.values())]
        if not all(self._is_as_before(value, number) for value, number in given):
            known: dict[int, Any] = {}
            self._snapshot = {number: (value, copied(value, known)) for value, number in given}
        copies = [self._snapshot[number][1] for _, number in given]
        return tuple(copies[: len(args)]), dict(zip(kwargs, copies[len(args) :], strict=True))

    def _is_as_before(self, value: Any, number: int) -> bool:
        if number not in self._snapshot:
            return False
        _, copy_of_it = self._snapshot[number]
        return copy_of_it is value or _equal(copy_of_it, value)

    def after(self, before: Arguments | None, function: Callable[..., Any], now: Arguments, value: Any) -> None:
        """The call returned."""
        if before is None or self._taken is None:
            return
        self._taken.made.append(Call(function, before, value))
        if _equal(before, now):
            self._of_no_use -= 1


def copied(value: Any, known: dict[int, Any] | None = None) -> Any:
    """The same with containers of its own, however deep and as often as they are there; what they hold is shared."""
    kind = type(value)
    if kind in _whole:
        return value
    known = {} if known is None else known
    if kind is tuple:
        return tuple([copied(item, known) for item in value])
    number = id(value)  # once: every call of it is told to the guard
    if number in known:
        return known[number]
    if kind is list:
        mine = known[number] = value.copy()
        for index, item in enumerate(mine):
            if type(item) not in _whole:
                mine[index] = copied(item, known)
        return mine
    if kind is set:
        known[number] = set(value)
        return known[number]
    if issubclass(kind, dict):
        ours = known[number] = value.copy() if kind is dict else _copied_mapping(value, kind)
        for key, item in dict.items(value):
            if type(item) not in _whole:
                dict.__setitem__(ours, key, copied(item, known))
        return ours
    _whole.add(kind)
    return value


def _copied_mapping(value: dict[Any, Any], kind: type[dict[Any, Any]]) -> dict[Any, Any]:
    """A dictionary of some other kind with the same entries, set without asking it where it is plain."""
    if not _is_plain_mapping(kind):
        return copy.copy(value)
    mine = kind.__new__(kind)
    dict.update(mine, dict.items(value))
    vars(mine).update(vars(value))
    return mine


@functools.cache
def _is_plain_mapping(kind: type) -> bool:
    """Whether instances are their entries and attributes, and nobody says how they are copied."""
    ways = ("__copy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__slots__", "__new__")
    *own, base, _ = kind.__mro__
    return base is dict and kind.__dictoffset__ != 0 and not any(way in vars(one) for one in own for way in ways)


def _equal(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
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
