"""The changes of rewards between two versions."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from cases_of_reward_diff import MORE, OFFSET, SAME, reply, scoring, side
from envwright.facts.observed import FunctionScore, RewardFunction, Task
from envwright.statistics.reward_comparison import ComparedVersion, RewardComparison, Scoring, compare
from envwright.statistics.task_matching import TwoSides, match_tasks
from envwright_worker.reward_equality import same_reward


def comparison(
    *replies: object, base: ComparedVersion | None = None, head: ComparedVersion | None = None
) -> RewardComparison:
    return RewardComparison(TwoSides(base or side(), head or side()), replies, matched=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1.0, 1.0, True),
        (0.1 + 0.2, 0.3, True),
        (1.0, 1.0001, False),
        (None, None, True),
        (None, 0.0, False),
        (math.nan, math.nan, True),
        (math.nan, 0.0, False),
        (1e9, 1e9 + 100, False),
        (-0.5, 0.5, False),
    ],
)
def test_score_comparison_treats_missing_as_own_value(one: float | None, other: float | None, equal: bool) -> None:
    assert same_reward(one, other) is equal


def test_comparison_finds_changes_that_cancel_out() -> None:
    assert not OFFSET.reward_changed
    assert OFFSET.pays_differently


def test_greatest_change_comes_first_beside_rewards_that_are_no_number() -> None:
    scored = [(0.0, 0.1), (math.nan, 0.5), (0.0, 0.9), (math.inf, math.inf)]
    replies = [reply(Scoring(before), Scoring(after), f"{before} to {after}") for before, after in scored]
    whole = comparison(*replies)
    assert [one.said_by for one in whole.changed] == ["nan to 0.5", "0.0 to 0.9", "0.0 to 0.1"]
    assert next(iter(comparison(replies[1], replace(replies[2], said_by="nan to 0.5")).by_speaker()))[3:] == (0.0, 0.7)


def test_functions_with_other_names_are_listed_not_compared() -> None:
    base = ComparedVersion("main", "old", "1", "v0", "", (RewardFunction("exact", 1.0, "reward"),))
    head = ComparedVersion("here", "new", "1", "v1", "", (RewardFunction("correct", 1.0, "reward"),))
    one = reply(
        Scoring(1.0, {"exact": FunctionScore(1.0, 1.0, "reward")}),
        Scoring(1.0, {"correct": FunctionScore(0.5, 2.0, "reward")}),
    )
    whole = comparison(one, base=base, head=head)
    assert not whole.changed
    assert whole.own_functions == TwoSides(("exact",), ("correct",))


def test_changed_weight_is_listed() -> None:
    base = ComparedVersion("main", "a", "1", "v1", "", (RewardFunction("correct", 1.0, "reward"),))
    head = ComparedVersion("here", "a", "1", "v1", "", (RewardFunction("correct", 0.8, "reward"),))
    assert comparison(base=base, head=head).weights == {"correct": (1.0, 0.8)}


def test_changed_weight_of_one_member_is_listed_with_the_member() -> None:
    first, second = (RewardFunction("correct", 1.0, "reward", members=(name,)) for name in ("first", "second"))
    base = ComparedVersion("main", "a", "1", "v0", "", (first, second))
    head = replace(base, functions=(replace(first, weight=0.8), second))
    assert comparison(base=base, head=head).weights == {"correct of first": (1.0, 0.8)}


@pytest.mark.parametrize(
    ("before", "after", "bumped"),
    [
        ("0.1.0", "0.1.1", True),
        ("0.9.0", "0.10.0", True),
        ("0.1.0", "0.1.0", False),
        ("0.2.0", "0.1.0", False),
        ("0.1.0", "0.1.0.post1", True),
        ("0.1.0", "0.1.0rc1", False),
        ("one", "two", True),
    ],
)
def test_version_bump_follows_version_order(before: str, after: str, bumped: bool) -> None:
    assert comparison(base=side(before), head=side(after)).bumped is bumped


def test_comparison_is_summarised_by_policy() -> None:
    rows = list(comparison(SAME, MORE, reply(scoring(None), scoring(1.0), "oracle")).by_speaker())
    assert rows == [("near-miss", 2, 1, pytest.approx(0.2), pytest.approx(0.6)), ("oracle", 1, 1, None, 1.0)]


def test_prompts_are_compared_exactly() -> None:
    def asked(text: str) -> Task:
        return Task(0, ({"role": "user", "content": text},), "2", {"answer": "2"})

    matching = match_tasks([asked("1+1? ")], [asked("1+1?")])
    (difference,) = compare(TwoSides(side(), side()), matching, []).prompts
    assert difference.prompts == TwoSides("[user] 1+1? ", "[user] 1+1?")
