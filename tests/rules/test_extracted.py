"""The answer that is extracted from a finding's reply."""

from __future__ import annotations

from dataclasses import replace

from envwright.facts.observed import Facts, Task
from envwright.rules.evidence import Evidence, ShownReply, of_reply
from subjects import subject

FACTS = replace(subject().facts, tasks=(Task(4, (), "8", {"answer": "8"}),))
REPLY = ShownReply(4, "so <answer>9</answer>")


def seen(facts: Facts = FACTS, **changed: object) -> Evidence:
    return of_reply(facts, replace(REPLY, **changed))


def test_whole_reply_is_shown_beside_right_answer() -> None:
    assert (seen().answer, seen().extracted) == ("8", "9")
    assert seen().named() == {"task": 4, "reply": "so <answer>9</answer>", "answer": "8", "extracted": "9"}


def test_extracted_answer_is_omitted_if_unreliable() -> None:
    multi_turn = replace(FACTS, description=FACTS.description and replace(FACTS.description, conversational=True))
    for evidence in (seen(length=900), seen(multi_turn), seen(task=77), seen(text=" ")):
        assert evidence.answer is None
        assert evidence.extracted is None


def test_evidence_read_from_json_is_the_same() -> None:
    other = replace(seen(), answer="eight", count=2, of=3, details={"again": [0.5]})
    whole = replace(seen(), reference=other, more=(other,), needed="")
    assert Evidence.read(whole.named()) == whole
