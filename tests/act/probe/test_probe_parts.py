"""What a probe's model may say, how its words are found again, and how it is asked. No torch is needed for these."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence

import pytest
from envops.act.training.probe.conversations import LostTurn, Spoken, Turn, joined
from envops.act.training.probe.speaker import Speaker
from envops.act.training.probe.vocabulary import END, ROLES, START, Vocabulary, shared, vocabulary_of

PROMPTS = [[{"role": "user", "content": f"Reverse <text>{text}</text> now."}] for text in ("abc", "cab")]
GOLD = ["<out>cba</out>", "<out>bac</out>"]


@pytest.fixture
def vocabulary() -> Vocabulary:
    return vocabulary_of(PROMPTS, GOLD)


def test_what_all_prompts_and_all_gold_replies_share_is_one_token_each(vocabulary: Vocabulary) -> None:
    assert "Reverse <text>" in vocabulary.pieces
    assert (vocabulary.opening, vocabulary.closing) == ("<out>", "</out>")
    assert len(vocabulary.heard(PROMPTS[0])) == len([START, ROLES["user"], "opening", *"abc", "closing", "speak"])


def test_the_model_may_say_what_gold_is_made_of_and_end(vocabulary: Vocabulary) -> None:
    assert [vocabulary.spoken([token, END]) for token in vocabulary.sayable if token != END] == [
        "<out>a</out>",
        "<out>b</out>",
        "<out>c</out>",
    ]


def test_a_reply_that_was_cut_off_is_not_closed(vocabulary: Vocabulary) -> None:
    assert vocabulary.spoken(vocabulary.sayable[1:2]) == "<out>a"


def test_texts_that_overlap_share_no_character_twice() -> None:
    assert shared(["aa", "aaa"]) == ("aa", "")
    assert shared(["same", "same"]) == ("", "")


def test_gold_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to learn"):
        vocabulary_of(PROMPTS, ["", ""])


def test_an_earlier_reply_is_heard_as_it_was_sampled(vocabulary: Vocabulary) -> None:
    said = [*vocabulary.sayable[1:3], END]
    first = vocabulary.heard(PROMPTS[0])
    later = vocabulary.heard(
        [*PROMPTS[0], {"role": "assistant", "content": vocabulary.spoken(said)}, {"role": "user", "content": "a"}]
    )
    assert later[: len(first) + len(said)] == [*first, *said]


def test_what_the_environment_says_between_turns_is_masked_out() -> None:
    turns = [Turn((1, 2), (5, 6), (-0.1, -0.2)), Turn((1, 2, 5, 6, 9, 9), (7,), (-0.3,))]
    trajectory = joined(turns)
    assert trajectory.prompt == (1, 2)
    assert trajectory.completion == (5, 6, 9, 9, 7)
    assert trajectory.mask == (1, 1, 0, 0, 1)
    assert trajectory.logprobs == (-0.1, -0.2, 0.0, 0.0, -0.3)


def test_a_reply_that_nobody_gave_is_named() -> None:
    with pytest.raises(LostTurn, match="nobody said 'other'"):
        Spoken().trajectory(PROMPTS[0], [{"role": "assistant", "content": "other"}])


def test_the_policy_is_asked_over_http_and_its_tokens_are_kept(vocabulary: Vocabulary) -> None:
    letter = vocabulary.sayable[1]

    def sample(conversations: Sequence[Sequence[int]]) -> list[tuple[Sequence[int], Sequence[float]]]:
        return [((letter, END), (-0.5, -0.25)) for _ in conversations]

    with Speaker(vocabulary, sample) as speaker:
        body = json.dumps({"model": "policy", "messages": PROMPTS[0]}).encode()
        request = urllib.request.Request(
            f"{speaker.base_url}/chat/completions", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            message = json.loads(response.read())["choices"][0]["message"]
        trajectory = speaker.spoken.trajectory(PROMPTS[0], [message])
    assert message["content"] == "<out>a</out>"
    assert trajectory.completion == (letter, END)
    assert trajectory.logprobs == (-0.5, -0.25)
