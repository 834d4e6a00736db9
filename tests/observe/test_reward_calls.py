"""Reward functions called again with what they were called with, without verifiers around them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from envops.observe.worker.reward_calls import Call, CallRecorder, Calls, copied


def called(calls: CallRecorder, function: Callable[..., Any], *args: Any) -> None:
    """As an adapter calls a function."""
    before = calls.before(args, {})
    calls.after(before, function, (args, {}), function(*args))


def taken(function: Callable[..., Any], *args: Any) -> Calls:
    calls = CallRecorder()
    with calls.taken() as made:
        called(calls, function, *args)
    return made


@pytest.mark.parametrize("value", [1.0, 0, True, None, math.nan, "text", {"a": 1.0, "b": math.nan}])
def test_what_says_the_same_repeats(value: Any):
    assert taken(lambda _: value, "reply").all_repeat()


@pytest.mark.parametrize(
    ("first", "then"), [(1.0, 0.0), (1.0, True), (1, 1.0), ({"a": 1.0}, {"b": 1.0}), (0.0, math.nan)]
)
def test_another_value_does_not_repeat(first: Any, then: Any):
    values = iter([first, then])
    assert not taken(lambda: next(values)).all_repeat()


def test_what_cannot_be_compared_does_not_repeat():
    assert not taken(lambda: [1.0]).all_repeat()


def test_what_raises_does_not_repeat():
    replies = ["right"]
    made = taken(lambda: float(len(replies[0])))
    replies.clear()
    assert not made.all_repeat()


def test_nothing_was_called_and_nothing_repeats():
    assert not Calls().all_repeat()


async def _ready() -> float:
    return 1.0


async def _waiting() -> float:
    await asyncio.sleep(0)
    return 1.0


@pytest.mark.parametrize(("function", "repeats"), [(_ready, True), (_waiting, None)])
def test_a_coroutine_repeats_where_it_waits_for_nothing(function: Callable[..., Any], repeats: bool | None):
    assert Call(function, ((), {}), 1.0).repeats(((), {})) is repeats


def test_calls_are_taken_only_in_the_block():
    calls = CallRecorder()
    called(calls, len, "before")
    with calls.taken() as made:
        called(calls, len, "within")
    called(calls, len, "after")
    assert [call.arguments[0] for call in made.made] == [("within",)]


def test_one_that_raised_leaves_none_to_repeat():
    calls = CallRecorder()
    with calls.taken() as made:
        called(calls, len, "reply")
        calls.before((1,), {})  # it raised: nothing is said after it
    assert not made


def test_a_function_that_writes_to_its_arguments_is_not_called_again():
    def counts(state: dict[str, int]) -> float:
        state["calls"] = state.get("calls", 0) + 1
        return 1.0

    assert not taken(counts, {})


@pytest.mark.parametrize("deep", [{"info": {"seen": []}}, {"input": {"rows": [[1], [2]]}}], ids=["a list", "lists"])
def test_writing_is_seen_however_deep(deep: dict[str, dict[str, list[Any]]]):
    def writes(state: dict[str, dict[str, list[Any]]]) -> float:
        next(iter(next(iter(state.values())).values())).append(1)
        return 1.0

    assert not taken(writes, deep)


def test_whatever_a_call_writes_the_next_one_is_given_what_the_first_was():
    emptied = False

    def right(answers: list[str]) -> float:
        if emptied:
            answers.clear()
        return float("4" in answers)

    made = taken(right, ["4"])
    emptied = True
    assert not made.all_repeat()
    emptied = False
    assert made.all_repeat()


def test_what_is_held_in_two_places_is_one_thing_in_a_copy():
    info: dict[str, int] = {}
    mine = copied({"info": info, "state": {"info": info}})
    assert mine["info"] is mine["state"]["info"]
    assert mine["info"] is not info
