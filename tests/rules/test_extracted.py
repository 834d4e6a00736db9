"""What a finding's reply is taken to answer."""

from __future__ import annotations

from dataclasses import replace

from envops.facts.observed import Facts, Task
from envops.rules.engine import Finding
from envops.rules.extracted import with_extracted
from subjects import subject

FACTS = replace(subject().facts, tasks=(Task(4, (), "8", {"answer": "8"}),))
FINDING = Finding("RWD005", "rewards", "error", "m", "f", {"task": 4, "reply": "so <answer>9</answer>"})


def evidence(finding: Finding = FINDING, facts: Facts = FACTS, **changed: object) -> dict[str, object]:
    return dict(with_extracted(replace(finding, evidence={**finding.evidence, **changed}), facts).evidence)


def test_what_the_marks_frame_stands_beside_the_right_answer() -> None:
    assert evidence() == {"task": 4, "reply": "so <answer>9</answer>", "answer": "8", "extracted": "9"}


def test_an_answer_that_the_rule_tells_itself_is_kept() -> None:
    assert evidence(answer="eight")["answer"] == "eight"


def test_of_a_shortened_reply_a_conversation_or_an_unknown_task_nothing_is_said() -> None:
    talks = replace(FACTS, description=replace(FACTS.description, conversational=True)) if FACTS.description else FACTS
    assert "extracted" not in evidence(reply_length=900)
    assert "extracted" not in evidence(facts=talks)
    assert "extracted" not in evidence(task=77)
    assert "extracted" not in evidence(reply=" ")
