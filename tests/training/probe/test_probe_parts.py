"""The vocabulary of a probe's model, and its conversion to text. No torch is needed for these."""

from __future__ import annotations

import pytest
from envwright.facts.observed import Description
from envwright_learner.probe_vocabulary import (
    END,
    ROLES,
    START,
    NotForAProbe,
    Vocabulary,
    require_single_turn,
    vocabulary_of,
)

PROMPTS = [[{"role": "user", "content": f"Reverse <text>{text}</text> now."}] for text in ("abc", "cab")]
GOLD = ["<out>cba</out>", "<out>bac</out>"]


@pytest.fixture
def vocabulary() -> Vocabulary:
    return vocabulary_of(PROMPTS, GOLD)


def test_vocabulary_has_one_token_for_each_shared_text(vocabulary: Vocabulary) -> None:
    assert "Reverse <text>" in vocabulary.pieces
    assert (vocabulary.opening, vocabulary.closing) == ("<out>", "</out>")
    assert len(vocabulary.heard(PROMPTS[0])) == len([START, ROLES["user"], "opening", *"abc", "closing", "speak"])


def test_vocabulary_replies_are_made_of_reference_parts(vocabulary: Vocabulary) -> None:
    assert [vocabulary.reply([token, END])["content"] for token in vocabulary.sayable if token != END] == [
        "<out>a</out>",
        "<out>b</out>",
        "<out>c</out>",
    ]


def test_vocabulary_truncated_reply_is_not_closed(vocabulary: Vocabulary) -> None:
    assert vocabulary.reply(vocabulary.sayable[1:2])["content"] == "<out>a"


def test_vocabulary_renders_environment_turn_after_reply(vocabulary: Vocabulary) -> None:
    reply = [*vocabulary.sayable[1:3], END]
    messages = [*PROMPTS[0], vocabulary.reply(reply), {"role": "user", "content": "a"}]
    whole, later = vocabulary.heard([{"role": "user", "content": "a"}]), vocabulary.heard_after(messages, 1, (), reply)
    assert later == whole[1:]
    assert vocabulary.heard_after(messages, 1, (), reply[:2]) == [END, *later]


@pytest.mark.parametrize(
    ("tools", "answers", "expected"),
    [(("look_up", "add"), True, "has tools \\(look_up, add\\)"), ((), True, "it is multi-turn")],
)
def test_probe_refuses_multi_turn_environment(tools: tuple[str, ...], answers: bool, expected: str) -> None:
    about = Description("v1", "0.4.0", "3.12", "Sums", answers, (), (), tools=tools)
    with pytest.raises(NotForAProbe, match=f"{expected}.*backend: trl"):
        require_single_turn(about)


def test_probe_accepts_single_turn_environment() -> None:
    require_single_turn(Description("v1", "0.4.0", "3.12", "Sums", False, (), ()))
