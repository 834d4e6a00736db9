"""The number of tasks of each policy, and the replies that are scored twice."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from envwright.facts.stages import POLICIES, SAMPLED, TASKS_SCORED
from envwright_worker.confinement import NetworkGuard
from envwright_worker.failures import Sources
from envwright_worker.messages import says
from envwright_worker.operations import rewards
from envwright_worker.operations.rewards import score_together
from envwright_worker.policies.policy import MANY, SCORED_TWICE
from envwright_worker.session import Session


class Policies:
    """Every policy replies with its name; there is no reference reply on some tasks."""

    oracle = SimpleNamespace(derived=False)

    def reply(self, policy: str, *_: Any) -> Any:
        return says(policy)

    def forms(self, policy: str, *_: Any) -> list[str]:
        return [policy]


def session_into(items: list[dict[str, Any]], *, grouped: bool) -> Any:
    """A session whose scores are put into a list."""
    channel: Any = SimpleNamespace(be_about=lambda _: None, item=lambda _kind, value, **_options: items.append(value))
    session: Any = Session(channel, NetworkGuard(Sources(), allowed=False))
    session.policies = Policies()
    session.adapter = SimpleNamespace(conversational=False, grouped=grouped, score=_score)
    return session


def asked(silent: int | None = None, *, grouped: bool = False) -> list[dict[str, Any]]:
    """The scores of all policies on as many tasks as a worker keeps."""
    items: list[dict[str, Any]] = []
    session = session_into(items, grouped=grouped)
    for index in range(TASKS_SCORED):
        session.kept[index] = SimpleNamespace(index=index, prompt=[], data={})
        session.asked[index] = None if index == silent else says("gold")
    for policies in (POLICIES[:1], POLICIES[1:]):
        request: Any = {"policies": policies, "sampled": SAMPLED, "seconds": 5.0}
        rewards.answer(session, request)
    return items


async def _score(_task: Any, completions: Any) -> list[dict[str, Any]]:
    row = {"reward": 1.0, "functions": {}, "failures": [], "failure": None, "seconds": 0.0}
    return [dict(row) for _ in completions]


def tasks_of(items: list[dict[str, Any]], policy: str) -> list[int]:
    return [item["task"] for item in items if item["policy"] == policy]


def test_oracle_replies_to_all_tasks_and_policies_to_thirty() -> None:
    items = asked()
    assert tasks_of(items, "oracle") == list(range(TASKS_SCORED))
    assert tasks_of(items, "near-miss") == tasks_of(items, "nop") == list(range(MANY))
    assert max(Counter(item["policy"] for item in items if item["policy"] != "oracle").values()) == MANY


def test_later_task_without_reference_gets_empty_reply() -> None:
    assert tasks_of(asked(silent=TASKS_SCORED - 1), "nop") == [*range(MANY), TASKS_SCORED - 1]


def test_group_rewards_compare_oracle_with_near_miss_on_all_tasks() -> None:
    items = asked(grouped=True)
    assert tasks_of(items, "near-miss") == tasks_of(items, "oracle") == list(range(TASKS_SCORED))
    assert tasks_of(items, "negated") == list(range(SAMPLED["negated"]))


def test_first_replies_of_each_policy_are_scored_twice() -> None:
    items = asked()
    twice = Counter(item["policy"] for item in items if item["again"])
    assert twice == {policy: min(SCORED_TWICE, SAMPLED.get(policy, SCORED_TWICE)) for policy in POLICIES}
    assert [item["task"] for item in items if item["policy"] == "echo" and item["again"]] == list(range(SCORED_TWICE))


def test_groups_are_scored_twice_on_first_tasks() -> None:
    items: list[dict[str, Any]] = []
    session = session_into(items, grouped=True)
    for index in range(SCORED_TWICE + 1):
        task: Any = SimpleNamespace(index=index)
        score_together(session, task, [("oracle", [says("gold")]), ("nop", [says("")])], 5.0)
    assert [item["task"] for item in items if not item["again"]] == [SCORED_TWICE] * 2
    assert [item["again"] for item in items if item["again"]] == [[1.0]] * 2 * SCORED_TWICE
