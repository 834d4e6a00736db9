"""Many replies scored without what verifiers puts around reward functions, as long as that says the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from envops.observe.worker.policies import says
from envops.observe.worker.session import HELD_EVERY, HELD_FIRST, Session

TASK: Any = SimpleNamespace(index=0)
MANY = 3 * HELD_EVERY


class Adapter:
    """An adapter whose ways of scoring are told apart by who was asked."""

    def __init__(self, direct: Any = 1.0, full: Any = 1.0) -> None:
        self.full = full
        self.direct = direct
        self.asked: list[str] = []

    async def score(self, _task: Any, _completions: Any) -> list[dict[str, Any]]:
        self.asked.append("full")
        return [row(self.full)]

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


def test_failures_are_the_same_by_what_was_raised_and_not_by_the_way_there():
    adapter = Adapter()
    adapter.score_directly = lambda *_: row(1.0, "bad") | {"seconds": 0.2}  # type: ignore[method-assign]

    async def score(*_: Any) -> list[dict[str, Any]]:
        adapter.asked.append("full")
        one = row(1.0, "bad")
        one["failures"][0]["failure"]["traceback"] = "another way"
        return [one]

    adapter.score = score  # type: ignore[method-assign]
    ask(session_over(adapter), HELD_FIRST + 4)
    assert len(adapter.asked) == HELD_FIRST
