"""The replies of each scripted policy, given an oracle."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from envwright_worker.messages import says, text_of
from envwright_worker.policies.answers import JUNK
from envwright_worker.policies.policy import UnknownPolicy
from envwright_worker.policies.scripted import AnswerSettings, ScriptedPolicies

TASK = {"answer": "7"}
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "3 + 4?"}]


def oracle(reply: Callable[[dict[str, str]], Any]) -> Any:
    """An oracle that replies to every turn of a task alike."""
    return SimpleNamespace(derived=False, states_answer=True, reply=lambda task, *_: reply(task))


def no_idea(_: object) -> Any:
    raise LookupError("no idea")


KNOWS, FAILS = oracle(lambda task: says(f"<answer>{task['answer']}</answer>")), oracle(no_idea)
CALLS = oracle(lambda _: {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]})


def policies(oracle: Any = KNOWS, **settings: Any) -> ScriptedPolicies:
    return ScriptedPolicies(oracle, AnswerSettings(**settings))


def reply_of(name: str, oracle: Any = KNOWS) -> str:
    return text_of(policies(oracle).reply(name, 0, TASK, ASKED))


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("oracle", "<answer>7</answer>"),
        ("format-only", f"<answer>{JUNK}</answer>"),
        ("near-miss", "<answer>8</answer>"),
    ],
)
def test_policy_changes_the_reference_reply(name: str, reply: str):
    assert reply_of(name) == reply


@pytest.mark.parametrize(("tag", "expected"), [("reasoning", "reasoning"), ("steps", "think")])
def test_answer_inside_the_reasoning_is_in_the_tag_of_the_format(tag: str, expected: str):
    thinks = oracle(lambda task: says(f"<{tag}>3 and 4</{tag}>\n<answer>{task['answer']}</answer>"))
    for name in ("think-only", "unclosed-think"):
        assert reply_of(name, thinks).startswith(f"<{expected}>\n")


def test_hedge_lists_answer_among_others():
    reply = reply_of("hedge")
    assert reply.startswith("<answer>")
    assert "7" in reply.split(" or ")
    assert len(reply.split(" or ")) > 2


def test_unknown_policy_raises():
    with pytest.raises(UnknownPolicy):
        reply_of("perfect")


def test_oracle_exception_is_raised_for_oracle_and_becomes_junk_for_others():
    with pytest.raises(LookupError, match="no idea"):
        reply_of("oracle", FAILS)
    assert reply_of("near-miss", FAILS) == JUNK


def test_tool_call_of_oracle_is_passed_on():
    assert policies(CALLS).reply("near-miss", 0, TASK, ASKED)["tool_calls"] == [{"id": "1"}]


def test_answer_without_type_has_no_near_miss_or_hedge():
    without = policies(type="none")
    assert without.forms("near-miss", "an essay", {}) == []
    assert without.forms("hedge", "an essay", {}) == []


@pytest.mark.parametrize("answer", ["42", "-2.50", "123456789012"])
def test_equivalent_number_is_within_the_tolerance(answer: str):
    [reply] = policies(type="number", tolerance=0.5).forms("equivalent", f"<answer>{answer}</answer>", {})
    assert 0 < abs(Decimal(reply[len("<answer>") : -len("</answer>")]) - Decimal(answer)) < 0.5


def test_equivalent_whole_number_is_a_whole_number_if_the_tolerance_is():
    [reply] = policies(type="number", tolerance=2.0).forms("equivalent", "<answer>40</answer>", {})
    assert reply == "<answer>41</answer>", "a reward may read it as an integer"


def test_script_returns_turns_in_order_then_nothing():
    made = policies()
    made.scripts["script-0"] = [says("one"), says("two")]
    conversation: list[dict[str, Any]] = list(ASKED)
    spoken = []
    for _ in range(3):
        conversation.append(made.reply("script-0", 0, TASK, conversation))
        spoken.append(text_of(conversation[-1]))
    assert spoken == ["one", "two", ""]


def test_blend_mixes_rewards_within_most_tasks():
    made = policies()
    blended = [[text_of(made.reply("blend", task, TASK, ASKED)) for _ in range(8)] for task in range(40)]
    shares = [replies.count("<answer>7</answer>") / len(replies) for replies in blended]
    assert sum(0 < share < 1 for share in shares) > len(shares) / 2
    assert 0.3 < sum(shares) / len(shares) < 0.7
