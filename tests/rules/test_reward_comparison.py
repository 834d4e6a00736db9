"""The changes of rewards between two versions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from cases_of_reward_diff import MORE, OFFSET, SAME, reply, scoring, side
from envwright.facts.observed import FunctionScore, RewardFunction, Task
from envwright.statistics.reward_comparison import (
    ComparedVersion,
    RewardComparison,
    Scoring,
    TwoSides,
    compare,
    match_tasks,
)
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


def task(index: int, prompt: str, answer: Any = None, system: str = "", **data: Any) -> Task:
    messages = ({"role": "system", "content": system},) if system else ()
    return Task(index, (*messages, {"role": "user", "content": prompt}), answer, {"answer": answer, **data})


SAME_THRICE = [task(index, "1+1?", "2") for index in range(3)]
VERSIONS_OF_TASKS: list[tuple[str, list[Task], list[Task], dict[tuple[int, int], tuple[str, bool]]]] = [
    (
        "other positions",
        [task(0, "1+1?", "2"), task(1, "2+2?", "4")],
        [task(0, "2+2?", "4"), task(1, "1+1?", "2")],
        {(0, 1): ("prompt and data", False), (1, 0): ("prompt and data", False)},
    ),
    (
        "tasks without counterpart",
        [task(0, "1+1?", "2"), task(1, "gone?", "9")],
        [task(0, "1+1?", "2"), task(1, "new?", "7")],
        {(0, 0): ("prompt and data", False)},
    ),
    ("another answer", [task(0, "1+1?", "3")], [task(0, "1+1?", "2")], {(0, 0): ("prompt", False)}),
    (
        "other white space and a system prompt",
        [task(3, "What is\n1+1?", "2")],
        [task(0, "What is 1+1?", "2", system="Be brief.")],
        {(3, 0): ("prompt and data", True)},
    ),
    (
        "the folder of the package in the prompt",
        [task(0, "Read /wheels/a/3f/site/sums/1.txt", "2")],
        [task(0, "Read /wheels/a/9c/site/sums/1.txt", "2")],
        {(0, 0): ("prompt and data", False)},
    ),
    (
        "reworded prompts",
        [task(0, "Add 1 and 1.", "2", left=1), task(1, "Add 2 and 0.", "2", left=2)],
        [task(0, "What is 2 plus 0?", "2", left=2), task(1, "What is 1 plus 1?", "2", left=1)],
        {(0, 1): ("data", True), (1, 0): ("data", True)},
    ),
    (
        "other fields at the same place",
        [task(0, "Add 1 and 1.", "2", info={}), task(1, "Add 2 and 2.", "4", info={})],
        [task(0, "What is 1 plus 1?", 2, kind="sum"), task(1, "What is 2 plus 3?", 5, kind="sum")],
        {(0, 0): ("place and answer", True)},
    ),
    (
        "an answer as text and as a number",
        [task(4, "1+1?", "2", example_id=4, info={})],
        [task(0, "1+1?", 2, idx=0)],
        {(4, 0): ("prompt and answer", False)},
    ),
    ("repeated tasks", SAME_THRICE, SAME_THRICE[:2], {(n, n): ("prompt and data", False) for n in range(2)}),
    ("neither prompt, answer nor data", [Task(0, ())], [Task(0, ())], {}),
]


@pytest.mark.parametrize(
    ("base", "head", "expected"), [pytest.param(*case[1:], id=case[0]) for case in VERSIONS_OF_TASKS]
)
def test_tasks_are_matched_by_the_surest_evidence(
    base: list[Task], head: list[Task], expected: dict[tuple[int, int], tuple[str, bool]]
) -> None:
    matching = match_tasks(base, head)
    pairs = {(one.tasks.before.index, one.tasks.after.index): (one.by, one.prompts_differ) for one in matching.matches}
    assert pairs == expected
    for place, tasks in enumerate((base, head)):
        known = [pair[place] for pair in pairs]
        assert sorted([*known, *tuple(matching.unmatched)[place]]) == [each.index for each in tasks]


def test_games_with_same_opening_match_by_hidden_data() -> None:
    base = [task(index, "Guess.", None, secret=secret) for index, secret in enumerate((5, 7, 9))]
    head = [task(index, "Guess.", None, secret=secret) for index, secret in enumerate((9, 5, 8))]
    pairs = {(match.tasks.before.index, match.tasks.after.index) for match in match_tasks(base, head).matches}
    assert {(0, 1), (2, 0)} <= pairs
