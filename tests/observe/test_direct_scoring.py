"""Many replies scored without what verifiers puts around reward functions, as long as that says the same."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from envops.observe.worker.policies import says
from envops.observe.worker.session import HELD_EVERY, HELD_FIRST, HELD_FIRST_OF_POLICY, Session

TASK: Any = SimpleNamespace(index=0)
MANY = 3 * HELD_EVERY


class Adapter:
    """An adapter whose ways of scoring are told apart by who was asked."""

    scores_afresh = False

    def __init__(self, direct: Any = 1.0, full: Any = 1.0) -> None:
        self.full = full
        self.direct = direct
        self.full_row: dict[str, Any] | None = None
        self.asked: list[str] = []

    async def score(self, _task: Any, _completions: Any) -> list[dict[str, Any]]:
        self.asked.append("full")
        return [self.full_row or row(self.full)]

    def score_directly(self, _task: Any, _completion: Any) -> dict[str, Any] | None:
        self.asked.append("direct")
        return None if self.direct is None else row(self.direct)


def row(reward: float, raised: str = "") -> dict[str, Any]:
    failures = [{"function": "f", "failure": {"type": "ValueError", "message": raised, "traceback": "a way"}}]
    return {"reward": reward, "functions": {}, "failures": failures if raised else [], "failure": None, "seconds": 0.1}


def session_over(adapter: Adapter) -> Session:
    session = Session(SimpleNamespace())  # type: ignore[arg-type]
    session.adapter = adapter  # type: ignore[assignment]
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


def test_a_reply_that_a_function_fails_at_is_scored_in_full_and_says_nothing_of_the_others():
    adapter = Adapter()
    session = session_over(adapter)
    ask(session, HELD_FIRST)
    answers = iter([None] + [row(1.0)] * MANY)
    adapter.score_directly = lambda *_: next(answers)  # type: ignore[method-assign]
    adapter.full_row = row(0.0, "bad")
    assert ask(session, 1) == [0.0]
    adapter.full_row = None
    asked = len(adapter.asked)
    assert ask(session, 2) == [1.0, 1.0]
    assert len(adapter.asked) == asked


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
