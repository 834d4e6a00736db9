"""Reward functions called again with what they were called with, without verifiers around them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from envops.observe.worker.reward_calls import LOOKED_AT, Call, CallRecorder, all_repeat


def called(calls: CallRecorder, function: Callable[..., Any], *args: Any) -> None:
    """As an adapter calls a function."""
    looked = calls.before(function, args, {})
    calls.after(looked, function, args, {}, function(*args))


def taken(function: Callable[..., Any], *args: Any) -> list[Call]:
    calls = CallRecorder()
    with calls.taken() as made:
        called(calls, function, *args)
    return made


@pytest.mark.parametrize("value", [1.0, 0, True, None, math.nan, "text", {"a": 1.0, "b": math.nan}])
def test_what_says_the_same_repeats(value: Any):
    assert all_repeat(taken(lambda _: value, "reply"))


@pytest.mark.parametrize(
    ("first", "then"), [(1.0, 0.0), (1.0, True), (1, 1.0), ({"a": 1.0}, {"b": 1.0}), (0.0, math.nan)]
)
def test_another_value_does_not_repeat(first: Any, then: Any):
    values = iter([first, then])
    assert not all_repeat(taken(lambda: next(values)))


def test_what_cannot_be_compared_does_not_repeat():
    assert not all_repeat(taken(lambda: [1.0]))


def test_what_raises_does_not_repeat():
    replies = ["right"]
    made = taken(lambda: float(len(replies[0])))
    replies.clear()
    assert not all_repeat(made)


def test_nothing_was_called_and_nothing_repeats():
    assert not all_repeat([])


async def _ready() -> float:
    return 1.0


async def _waiting() -> float:
    await asyncio.sleep(0)
    return 1.0


@pytest.mark.parametrize(("function", "repeats"), [(_ready, True), (_waiting, False)])
def test_a_coroutine_repeats_where_it_waits_for_nothing(function: Callable[..., Any], repeats: bool):
    assert Call(function, (), {}, 1.0).repeats() is repeats


def test_calls_are_taken_only_in_the_block():
    calls = CallRecorder()
    called(calls, len, "before")
    with calls.taken() as made:
        called(calls, len, "within")
    called(calls, len, "after")
    assert [call.args for call in made] == [("within",)]


def test_blocks_may_be_nested():
    calls = CallRecorder()
    with calls.taken() as outer:
        called(calls, len, "first")
        with calls.taken() as inner:
            called(calls, len, "second")
    assert [call.args for call in inner] == [("second",)]
    assert [call.args for call in outer] == [("first",), ("second",)]


def test_one_that_raised_leaves_none_to_repeat():
    calls = CallRecorder()
    with calls.taken() as made:
        called(calls, len, "reply")
        calls.before(len, (1,), {})  # it raised: nothing is said after it
    assert made == []


def test_a_function_that_writes_to_its_arguments_is_not_called_again():
    def counts(state: dict[str, int]) -> float:
        state["calls"] = state.get("calls", 0) + 1
        return 1.0

    assert taken(counts, {}) == []


def test_one_that_begins_to_write_later_is_not_called_again_either():
    def keeps(state: dict[str, int], reply: str) -> float:
        if reply:
            state["seen"] = 1
        return 1.0

    calls = CallRecorder()
    for _ in range(LOOKED_AT - 1):
        with calls.taken():
            called(calls, keeps, {}, "")
    with calls.taken() as made:
        called(calls, keeps, {}, "right")
    assert made == []


def test_a_method_is_the_same_function_for_every_task():
    class Task:
        def writes(self, state: dict[str, int]) -> float:
            state["seen"] = 1
            return 1.0

    calls = CallRecorder()
    with calls.taken():
        called(calls, Task().writes, {})
    for _ in range(LOOKED_AT):
        with calls.taken() as made:
            called(calls, Task().writes, {"seen": 1})
    assert made == []
