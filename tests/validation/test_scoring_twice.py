"""First replies of a policy are scored twice."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from envwright_worker.confinement import NetworkGuard
from envwright_worker.failures import Sources
from envwright_worker.messages import says
from envwright_worker.policies.policy import SCORED_TWICE
from envwright_worker.session import Session

pytestmark = pytest.mark.usefixtures("no_loop")
TASK: Any = SimpleNamespace(index=0)
REPLY = [says("reply")]


def session_over(rewards: Iterator[float], asked: list[Any]) -> Session:
    async def score(*given: Any) -> list[dict[str, Any]]:
        asked.append(given)
        return [{"reward": next(rewards), "functions": {}, "failures": [], "failure": None, "seconds": 0.1}]

    channel = SimpleNamespace(be_about=lambda _about: None, item=lambda *_item, **_options: None)
    session = Session(channel, NetworkGuard(Sources(), allowed=False))  # type: ignore[arg-type]
    session.adapter = SimpleNamespace(score=score)  # type: ignore[assignment]
    session.policies = SimpleNamespace(oracle=SimpleNamespace(derived=False))  # type: ignore[assignment]
    return session


def test_first_replies_of_a_policy_are_scored_twice() -> None:
    asked: list[Any] = []
    session = session_over(iter([1.0] * 100), asked)
    for _ in range(SCORED_TWICE + 2):
        session.score(TASK, "nop", REPLY, 5.0)
    session.score(TASK, "echo", REPLY, 5.0)
    assert len(asked) == 2 * SCORED_TWICE + 2 + 2


def test_alternating_reward_differs_in_second_scoring() -> None:
    scored = session_over(iter((0.0, 1.0)), []).scored(TASK, "nop", REPLY, 5.0, twice=True)
    assert (scored["reward"], scored["again"]) == (0.0, [1.0])
