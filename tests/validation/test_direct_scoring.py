"""Direct scores of the search and of mutants, as long as they agree with verifiers' own scoring."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from envwright_worker.confinement import NetworkGuard
from envwright_worker.direct_scoring import COMPARED, DirectScoring
from envwright_worker.failures import Sources
from envwright_worker.messages import says
from envwright_worker.policies.policy import SCORED_TWICE
from envwright_worker.session import Session

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.usefixtures("no_loop")
TASK: Any = SimpleNamespace(index=0)
REPLY = [says("reply")]
MANY = COMPARED + 8


class Adapter:
    """An adapter whose rewards show which way of scoring was used."""

    def __init__(self, direct: float | None = 1.0, full: float = 1.0) -> None:
        self.direct_row = None if direct is None else row(direct)
        self.full_row = row(full)
        self.asked: list[str] = []

    async def score(self, _task: Any, _completions: Any) -> list[dict[str, Any]]:
        self.asked.append("full")
        return [self.full_row]

    def score_directly(self, _task: Any, _completion: Any) -> dict[str, Any] | None:
        self.asked.append("direct")
        return self.direct_row


def row(reward: float | None, raised: str = "") -> dict[str, Any]:
    failures = [{"function": "f", "failure": {"type": "ValueError", "message": raised, "traceback": "a way"}}]
    return {"reward": reward, "functions": {}, "failures": failures if raised else [], "failure": None, "seconds": 0.1}


def session_over(adapter: Adapter) -> Session:
    channel = SimpleNamespace(be_about=lambda _about: None, item=lambda *_item, **_options: None)
    session = Session(channel, NetworkGuard(Sources(), allowed=False))  # type: ignore[arg-type]
    session.adapter = adapter  # type: ignore[assignment]
    session.policies = SimpleNamespace(oracle=SimpleNamespace(derived=False))  # type: ignore[assignment]
    return session


def ask(scoring: DirectScoring, times: int = MANY) -> list[float]:
    return [scoring.scored(TASK, REPLY, 5.0)["reward"] for _ in range(times)]


def test_direct_scoring_that_agrees_compares_first_replies_only() -> None:
    adapter = Adapter()
    assert ask(DirectScoring(session_over(adapter))) == [1.0] * MANY
    assert adapter.asked == ["full", "direct"] * COMPARED + ["direct"] * (MANY - COMPARED)


@pytest.mark.parametrize("direct", [0.5, None], ids=["another reward", "not known how"])
def test_direct_scoring_that_differs_is_not_used_again(direct: float | None) -> None:
    adapter = Adapter(direct)
    scoring = DirectScoring(session_over(adapter))
    assert ask(scoring) == [1.0] * MANY
    assert scoring.scored_by_any(TASK, REPLY, 5.0)["reward"] == 1.0
    assert adapter.asked.count("direct") == 1


def test_failures_differing_in_traceback_only_agree() -> None:
    adapter = Adapter()
    adapter.full_row, adapter.direct_row = row(0.0, "bad"), row(0.0, "bad")
    adapter.direct_row["failures"][0]["failure"]["traceback"] = "another way"
    ask(DirectScoring(session_over(adapter)), COMPARED)
    assert adapter.asked == ["full", "direct"] * COMPARED


@pytest.mark.parametrize(
    ("in_full", "then"), [(True, "direct"), (False, "full")], ids=["in full too", "directly alone"]
)
def test_function_failing_directly_is_scored_in_full(in_full: bool, then: str) -> None:
    adapter = Adapter()
    scoring = DirectScoring(session_over(adapter))
    ask(scoring, COMPARED)
    adapter.direct_row = row(0.0, "bad")
    adapter.full_row = row(0.0, "bad") if in_full else row(1.0)
    assert scoring.scored_by_any(TASK, REPLY, 5.0)["reward"] == (0.0 if in_full else 1.0)
    adapter.direct_row = row(1.0)
    adapter.asked.clear()
    ask(scoring, 1)
    assert adapter.asked == [then]


def test_mutant_is_scored_directly_without_comparison() -> None:
    adapter = Adapter()
    scoring = DirectScoring(session_over(adapter))
    assert scoring.scored_by_any(TASK, REPLY, 5.0)["reward"] == 1.0
    assert adapter.asked == ["direct"]


def test_policy_is_scored_in_full_and_first_replies_twice() -> None:
    adapter = Adapter(0.5)
    session = session_over(adapter)
    for _ in range(SCORED_TWICE + 2):
        session.score(TASK, "nop", REPLY, 5.0)
    session.score(TASK, "echo", REPLY, 5.0)
    assert adapter.asked == ["full"] * (2 * SCORED_TWICE + 2 + 2)


def test_alternating_reward_differs_in_second_scoring() -> None:
    adapter = Adapter()
    session = session_over(adapter)
    rewards = iter((0.0, 1.0))
    session.scored_once = lambda *_: row(next(rewards))  # type: ignore[method-assign]
    scored = session.scored(TASK, "nop", REPLY, 5.0, twice=True)
    assert (scored["reward"], scored["again"]) == (0.0, [1.0])


def test_direct_scoring_sets_running_loop() -> None:
    seen: list[Any] = []
    adapter = Adapter()
    adapter.score_directly = lambda *_: seen.append(asyncio.get_running_loop())  # type: ignore[method-assign, assignment]
    session = session_over(adapter)
    ask(DirectScoring(session), 1)
    assert seen == [session.loop]
