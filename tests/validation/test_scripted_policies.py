"""What each scripted policy says, given an oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from envops_worker.messages import says, text_of
from envops_worker.policies.answers import JUNK
from envops_worker.policies.policies import OVERRIDE, AnswerSettings, Policies, UnknownPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TASK = {"answer": "7"}
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "3 + 4?"}]


class Knows:
    """An oracle that says the answer in tags."""

    derived = False

    def reply(self, task: Mapping[str, Any], messages: Sequence[dict[str, Any]]) -> dict[str, Any]:  # noqa: ARG002
        return says(f"<answer>{task['answer']}</answer>")


class Fails(Knows):
    def reply(self, task: Mapping[str, Any], messages: Sequence[dict[str, Any]]) -> dict[str, Any]:  # noqa: ARG002
        raise LookupError("no idea")


class Calls(Knows):
    def reply(self, task: Mapping[str, Any], messages: Sequence[dict[str, Any]]) -> dict[str, Any]:  # noqa: ARG002
        return {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}


def policies(oracle: Any = None, **settings: Any) -> Policies:
    return Policies(oracle or Knows(), AnswerSettings(**settings))


def said(name: str, oracle: Any = None) -> str:
    return text_of(policies(oracle).reply(name, 0, TASK, ASKED))


def test_the_oracle_says_what_the_oracle_says():
    assert said("oracle") == "<answer>7</answer>"


def test_nop_says_nothing():
    assert said("nop") == ""


def test_echo_says_what_was_asked():
    assert said("echo") == "Be brief.\n\n3 + 4?"


def test_override_asks_for_full_marks():
    assert said("override") == OVERRIDE


def test_format_only_says_junk_in_the_right_format():
    assert said("format-only") == f"<answer>{JUNK}</answer>"


def test_near_miss_is_wrong_in_the_right_format():
    assert said("near-miss") == "<answer>8</answer>"


def test_hedge_names_the_answer_among_others():
    reply = said("hedge")
    assert reply.startswith("<answer>")
    assert "7" in reply.split(" or ")
    assert len(reply.split(" or ")) > 2


def test_an_unknown_policy_is_refused():
    with pytest.raises(UnknownPolicy):
        said("perfect")


def test_the_oracles_exception_is_raised_for_the_oracle():
    with pytest.raises(LookupError, match="no idea"):
        said("oracle", Fails())


def test_the_oracles_exception_is_junk_for_everybody_else():
    assert said("near-miss", Fails()) == JUNK


def test_a_tool_call_is_passed_on_by_every_policy_made_from_the_oracle():
    assert policies(Calls()).reply("near-miss", 0, TASK, ASKED)["tool_calls"] == [{"id": "1"}]


def test_an_answer_of_no_type_has_neither_near_miss_nor_hedge():
    without = policies(type="none")
    assert without.distorted("near-miss", "an essay", {}) == []
    assert without.distorted("hedge", "an essay", {}) == []


def test_a_script_says_its_turns_in_order_and_then_nothing():
    made = policies()
    made.scripts["script-0"] = [says("one"), says("two")]
    conversation: list[dict[str, Any]] = list(ASKED)
    spoken = []
    for _ in range(3):
        conversation.append(made.reply("script-0", 0, TASK, conversation))
        spoken.append(text_of(conversation[-1]))
    assert spoken == ["one", "two", ""]


def blended(seed: int = 0, tasks: int = 40, rollouts: int = 8) -> list[list[str]]:
    made = policies()
    made.seed = seed
    return [[text_of(made.reply("blend", task, TASK, ASKED)) for _ in range(rollouts)] for task in range(tasks)]


def test_the_blend_is_the_same_every_time():
    assert blended() == blended()


def test_another_seed_blends_differently():
    assert blended(1) != blended(2)


def test_the_blend_is_right_and_wrong_within_most_tasks():
    shares = [replies.count("<answer>7</answer>") / len(replies) for replies in blended()]
    assert sum(0 < share < 1 for share in shares) > len(shares) / 2
    assert 0.3 < sum(shares) / len(shares) < 0.7


def test_text_is_found_in_parts():
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, "stray", {"type": "text", "text": "b"}]
    assert text_of({"content": parts}).split() == ["a", "b"]


@pytest.mark.parametrize("message", [{}, {"content": None}, {"content": 3}])
def test_a_message_without_text_has_none(message: dict[str, Any]):
    assert text_of(message) == ""
