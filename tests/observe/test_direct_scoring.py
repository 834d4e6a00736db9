"""Many replies scored without what verifiers puts around reward functions, as long as that says the same."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from envops.observe.worker.policies import says
from envops.observe.worker.reward_calls import CallRecorder
from envops.observe.worker.session import HELD_EVERY, HELD_FIRST, HELD_FIRST_OF_POLICY, Session

if TYPE_CHECKING:
    from collections.abc import Callable

TASK: Any = SimpleNamespace(index=0)
MANY = 3 * HELD_EVERY


class Adapter:
    """An adapter whose ways of scoring are told apart by who was asked."""

    scores_afresh = False
    follows_from_calls = False

    def __init__(self, direct: Any = 1.0, full: Any = 1.0) -> None:
        self.full = full
        self.direct = direct
        self.full_row: dict[str, Any] | None = None
        self.direct_row: dict[str, Any] | None = None
        self.paid: Callable[[], float] | None = None
        self.calls = CallRecorder()
        self.asked: list[str] = []

    async def score(self, _task: Any, _completions: Any) -> list[dict[str, Any]]:
        self.asked.append("full")
        return [self.full_row or row(self.paid() if self.paid else self.full)]

    def score_directly(self, _task: Any, _completion: Any) -> dict[str, Any] | None:
        self.asked.append("direct")
        if self.direct_row is not None or self.direct is None:
            return self.direct_row
        return row(self.paid() if self.paid else self.direct)


def row(reward: float, raised: str = "") -> dict[str, Any]:
    failures = [{"function": "f", "failure": {"type": "ValueError", "message": raised, "traceback": "a way"}}]
    return {"reward": reward, "functions": {}, "failures": failures if raised else [], "failure": None, "seconds": 0.1}


def session_over(adapter: Adapter) -> Session:
    session = Session(SimpleNamespace())  # type: ignore[arg-type]
    session.adapter = adapter  # type: ignore[assignment]
    session.policies = SimpleNamespace(oracle=SimpleNamespace(derived=False))  # type: ignore[assignment]
    return session


def ask(session: Session, times: int = MANY) -> list[float]:
    return [session.scored_directly(TASK, [says("reply")], 5.0)["reward"] for _ in range(times)]


def test_the_first_replies_and_some_later_ones_are_scored_both_ways():
    adapter = Adapter()
    assert ask(session_over(adapter)) == [1.0] * MANY
    assert adapter.asked[: 2 * HELD_FIRST] == ["full", "direct"] * HELD_FIRST
    assert adapter.asked.count("full") == HELD_FIRST + sum(n % HELD_EVERY == 0 for n in range(HELD_FIRST + 1, MANY + 1))


@pytest.mark.parametrize("direct", [0.5, None], ids=["another reward", "not known how"])
def test_what_does_not_hold_is_scored_in_full_from_then_on(direct: float | None):
    adapter = Adapter(direct)
    assert ask(session_over(adapter)) == [1.0] * MANY
    assert adapter.asked.count("direct") == 1


def test_what_stops_holding_later_is_found_by_a_later_reply():
    adapter = Adapter()
    session = session_over(adapter)
    ask(session, HELD_FIRST)
    adapter.direct = 0.5
    ask(session, HELD_EVERY)
    assert ask(session) == [1.0] * MANY


def failing(raised: str = "bad") -> dict[str, Any]:
    return row(0.0, raised)


def test_failures_are_the_same_by_what_was_raised_and_not_by_the_way_there():
    adapter = Adapter()
    adapter.full_row = failing()
    adapter.direct_row = failing()
    adapter.direct_row["failures"][0]["failure"]["traceback"] = "another way"
    ask(session_over(adapter), HELD_FIRST)
    assert adapter.asked == ["full", "direct"] * HELD_FIRST


@pytest.mark.parametrize(("in_full", "holds"), [(True, True), (False, False)], ids=["in full too", "directly alone"])
def test_a_reply_that_a_function_fails_at_directly_is_scored_in_full(in_full: bool, holds: bool):
    adapter = Adapter()
    session = session_over(adapter)
    ask(session, HELD_FIRST)
    adapter.direct_row, adapter.full_row = failing(), failing() if in_full else None
    assert ask(session, 1) == [0.0 if in_full else 1.0]
    adapter.direct_row = adapter.full_row = None
    adapter.asked.clear()
    ask(session, 1)
    assert adapter.asked == ["direct" if holds else "full"]


def test_what_fails_directly_alone_when_asked_once_more_is_believed_in_full():
    adapter = Adapter()
    adapter.scores_afresh, adapter.direct_row = True, failing() | {"reward": None}
    session = session_over(adapter)
    assert session.scored_again(TASK, [says("reply")], 5.0)["reward"] == 1.0
    adapter.asked.clear()
    ask(session, 1)
    assert adapter.asked == ["full"]


def test_what_every_other_call_says_otherwise_is_seen_in_a_reply_that_is_scored_both_ways():
    calls = itertools.count()
    adapter = Adapter()
    adapter.scores_afresh = True
    adapter.paid = lambda: float(next(calls) % 2)
    scored = session_over(adapter).scored(TASK, "nop", [says("reply")], 5.0)
    assert scored["again"] != [scored["reward"]]


def test_a_policy_has_first_replies_of_its_own():
    adapter = Adapter()
    session = session_over(adapter)
    ask(session)
    adapter.asked.clear()
    for _ in range(HELD_FIRST_OF_POLICY + 1):
        session.scored_directly(TASK, [says("reply")], 5.0, "nop")
    assert adapter.asked == ["full", "direct"] * HELD_FIRST_OF_POLICY + ["direct"]


@pytest.mark.parametrize(("afresh", "asked"), [(True, "direct"), (False, "full")])
def test_what_shares_nothing_is_asked_directly_once_more(afresh: bool, asked: str):
    adapter = Adapter()
    adapter.scores_afresh = afresh
    assert session_over(adapter).scored_again(TASK, [says("reply")], 5.0)["reward"] == 1.0
    assert adapter.asked == [asked]


def test_what_did_not_hold_is_not_asked_directly_once_more():
    adapter = Adapter(0.5)
    adapter.scores_afresh = True
    session = session_over(adapter)
    ask(session, 1)
    assert session.scored_again(TASK, [says("reply")], 5.0)["reward"] == 1.0


def test_a_loop_seems_to_run_while_a_reply_is_scored_directly():
    seen: list[Any] = []
    adapter = Adapter()
    adapter.score_directly = lambda *_: seen.append(asyncio.get_running_loop())  # type: ignore[method-assign, assignment]
    session = session_over(adapter)
    ask(session, 1)
    assert seen == [session.loop]
