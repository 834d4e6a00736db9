"""What the worlds and the reading of answers promise."""

from itertools import islice

import pytest
from rule_chains.taskset import final_answer
from rule_chains.worlds import consequences, worlds


def test_the_same_seed_makes_the_same_worlds():
    assert list(islice(worlds(3), 100)) == list(islice(worlds(3), 100))


def test_no_world_is_made_twice():
    told = [world.text for world in islice(worlds(0), 3000)]
    assert len(set(told)) == len(told)


def test_about_half_of_the_statements_follow():
    assert 400 < sum(world.follows for world in islice(worlds(0), 1000)) < 600


def test_a_rule_needs_all_its_conditions():
    rules = [(frozenset({"calm", "kind"}), "wise"), (frozenset({"wise"}), "old")]
    assert consequences({"calm"}, rules) == {"calm"}
    assert consequences({"calm", "kind"}, rules) == {"calm", "kind", "wise", "old"}


def test_no_statement_is_one_of_the_facts():
    assert not any(f"{world.statement}." in world.text.splitlines() for world in islice(worlds(0), 1000))


@pytest.mark.parametrize(
    "reply", ["", "true", "<answer>true", "<answer>yes</answer>", "<answer>true or false</answer>"]
)
def test_replies_without_one_final_answer(reply: str):
    assert final_answer(reply) is None


def test_the_answer_stands_behind_the_thinking():
    assert final_answer("<think><answer>false</answer></think>So: <answer> True </answer>.") is True
