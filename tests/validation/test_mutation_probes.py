"""What mutants are asked about, and what is laid down of each conversation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from envops.facts.observed import Case, Description, Failure, FunctionFailure, FunctionScore, RewardFunction, Score
from envops.repository.cases import parse_expectation
from envops.repository.package import Package, RewardDeclaration
from envops.statistics.declared_range import range_of
from envops.validation.stages.mutation import LONGEST_REPLY, probes_of
from envops_worker.mutation.bench import _otherwise_before, broken_expectation, differences


def described(*weights: tuple[str, float], conversational: bool = False) -> Description:
    functions = tuple(RewardFunction(name, weight, "reward") for name, weight in weights)
    return Description("v1", "0.4.0", "3.11", "Sample", conversational, functions, ())


def score(policy: str, reward: float, task: int = 0, reply: str = "a reply") -> Score:
    completion = ({"role": "assistant", "content": reply},)
    return Score(task, policy, completion, reward, {"correct": FunctionScore(reward, 1.0, "reward")})


def probes(*scores: Score, cases: tuple[Case, ...] = (), **changes: Any) -> dict[str, dict[str, Any]]:
    package = Package("a", None, "a", "1", "", (), "", (), (), "", None, None)  # type: ignore[arg-type]
    found = probes_of(package, described(("correct", 1.0), **changes), scores, cases)
    return {probe["name"]: probe for probe in found.usable}


def killed(probe: dict[str, Any], before: float, after: float) -> bool:
    return bool(broken_expectation(probe, {"reward": before}, {"reward": after}))


@pytest.mark.parametrize("text", ["1", "0.5", ">= 0.9", "> 0", "< 0.5", "<= 1", "!= 1", "between 0.2 and 0.4", "== -1"])
def test_expectation_means_to_the_worker_what_it_means_to_the_gate(text: str):
    case = Case("a", 1, {"reward": text}, score("case", 0.3))
    [probe] = probes(cases=(case,)).values()
    expectation = parse_expectation(text)
    values = [-1.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.4999, 0.5, 0.5000005, 0.9, 1.0, 1.0000005, 1.1, 2.0]
    holding = next(value for value in (*values, 0.95) if expectation.holds(value))
    for value in values:
        assert killed(probe, holding, value) != expectation.holds(value), value


def test_gold_must_earn_what_it_earned():
    probe = probes(score("oracle", 1.0))["policy oracle on task 0"]
    assert killed(probe, 1.0, 0.9)
    assert killed(probe, 1.0, 1.5)
    assert not killed(probe, 1.0, 1.0)


def test_wrong_policy_must_stay_below_the_reference_reply():
    found = probes(score("oracle", 1.0), score("near-miss", 0.2, reply="wrong"))
    assert killed(found["policy near-miss on task 0"], 0.2, 1.0)
    assert not killed(found["policy near-miss on task 0"], 0.2, 0.4)


def test_what_did_not_hold_before_kills_nothing():
    found = probes(score("oracle", 1.0), score("near-miss", 1.0, reply="wrong"))
    assert not killed(found["policy near-miss on task 0"], 1.0, 1.0)


def test_silence_must_stay_at_the_floor_and_form_within_its_share():
    found = probes(score("oracle", 1.0), score("nop", 0.0), score("format-only", 0.0))
    assert killed(found["policy nop on task 0"], 0.0, 0.1)
    assert not killed(found["policy nop on task 0"], 0.0, 0.04)
    assert killed(found["policy format-only on task 0"], 0.0, 0.2)


def test_reward_out_of_the_declared_range_is_noticed_on_every_reply():
    found = probes(score("oracle", 1.0), score("echo", 0.0))
    assert killed(found["policy echo on task 0"], 0.0, -0.5)


@pytest.mark.parametrize("value", [None, math.inf])
def test_function_without_a_number_is_noticed(value: float | None):
    probe = {"expect": []}
    assert broken_expectation(probe, {"reward": 1.0, "metric": 3.0}, {"reward": 1.0, "metric": value})
    assert not broken_expectation(probe, {"metric": None}, {"metric": value})


def limits_of(declared: RewardDeclaration, description: Description) -> tuple[float, float, float]:
    found = range_of(declared, description.functions)
    return found.minimum, found.maximum, found.format_share


def test_range_follows_from_weights_and_declaration():
    functions = described(("correct", 2.0), ("format_reward", 0.5), ("penalty", -1.0))
    assert limits_of(RewardDeclaration(), functions) == (-1.0, 2.5, 0.2)
    declared = RewardDeclaration(min=0.0, max=10.0, format=("correct",), format_share=0.1)
    assert limits_of(declared, functions) == (0.0, 10.0, 0.1)


def test_cases_come_first_and_long_replies_not_at_all():
    found = probes(
        score("oracle", 1.0),
        score("long-junk", 0.0, reply="x" * (LONGEST_REPLY + 1)),
        cases=(Case("mine", 1, {"reward": "1"}, score("case", 1.0)),),
    )
    assert list(found) == ["case 'mine'", "policy oracle on task 0"]


def test_case_that_was_not_scored_is_no_conversation():
    assert not probes(cases=(Case("mine", 1, {"reward": "1"}, None),))


def test_probe_holds_earlier_rewards_and_whether_it_was_played():
    for conversational in (False, True):
        probe = probes(score("oracle", 1.0), conversational=conversational)["policy oracle on task 0"]
        assert probe["recorded"] == {"reward": 1.0, "correct": 1.0}
        assert probe["played"] == conversational


def test_one_conversation_of_each_outcome_comes_before_a_second_of_any():
    right, wrong = (
        [score(policy, reward, task) for task in range(3)] for policy, reward in (("oracle", 1.0), ("echo", 0.0))
    )
    names = [name.split()[1] for name in probes(*right, *wrong, score("hedge", 0.5))]
    assert names == ["oracle", "echo", "hedge", "oracle", "echo", "oracle", "echo"]


def test_how_long_a_conversation_took_by_the_clock_does_not_matter():
    slow = replace(score("oracle", 1.0), seconds=3.0)
    assert list(probes(slow)) == list(probes(score("oracle", 1.0)))


def test_conversation_out_of_time_is_missed_and_one_that_raised_is_not():
    package = Package("a", None, "a", "1", "", (), "", (), (), "", None, None)  # type: ignore[arg-type]
    late, broken = Failure("timeout", "OutOfTime", "took longer than 10 s"), Failure("raised", "ValueError", "no")
    scores = [
        replace(score("oracle", 1.0), failure=late, reward=None),
        replace(score("echo", 1.0), failures=(FunctionFailure("correct", late),), reward=None),
        replace(score("nop", 1.0), failure=broken, reward=None),
        score("near-miss", 0.0),
    ]
    found = probes_of(package, described(("correct", 1.0)), scores, ())
    assert [probe["name"] for probe in found.usable] == ["policy near-miss on task 0"]
    assert found.lost == dict.fromkeys(("policy oracle on task 0", "policy echo on task 0"), "took longer than 10 s")


def expected_of(recorded: dict[str, float], now: dict[str, float], **changes: bool) -> list[str] | None:
    """Of what expectations hold a conversation that scores so now; `None` where it is left out."""
    expect = [{"of": "reward"}, {"of": "right"}, {"of": "met"}]
    probe = {"expect": expect, "recorded": recorded, "played": False, "in_company": False, **changes}
    return None if _otherwise_before(probe, now) else [each["of"] for each in probe["expect"]]  # type: ignore[attr-defined]


def test_score_that_changes_without_a_mutant_kills_none():
    assert expected_of({"reward": 1.0, "right": 1.0}, {"reward": 1.0, "right": 1.0})
    assert expected_of({"reward": 1.0, "right": 1.0}, {"reward": 1.0, "right": 0.5}) is None
    assert expected_of({"reward": 1.0}, {"reward": 0.5}) is None
    assert expected_of({"reward": 1.0}, {"reward": 0.5}, in_company=True)


def test_conversation_of_a_rewarded_episode_is_held_to_its_functions():
    episode = {"reward": 1.0, "right": 1.0, "met": 1.0}
    assert expected_of(episode, {"reward": 0.5, "right": 1.0}, played=True) == ["right"]
    assert expected_of(episode, {"reward": 0.5, "right": 0.5}, played=True) is None
    assert expected_of(episode, {"reward": 0.5, "other": 0.5}, played=True) is None


def test_scores_differ_by_name_the_reward_first():
    assert differences({"reward": 1.0, "a": 0.0, "b": None}, {"reward": 0.0, "a": 0.5, "b": None}) == ["reward", "a"]
    assert differences({"a": 0.1 + 0.2}, {"a": 0.3}) == []
