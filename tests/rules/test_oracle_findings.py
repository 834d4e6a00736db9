"""Every kind of mistake in an oracle is a finding of its own."""

from __future__ import annotations

from dataclasses import replace

from envwright.facts.observed import Place
from envwright.rules.engine import findings
from subjects import failure, score, subject


def test_oracle_mistakes_are_separate_findings():
    raised = failure(type="KeyError", message="'a'", place=Place("tests/oracle.py", 7))
    typed = failure(type="OracleError", message="reply() returned int", place=Place("tests/oracle.py", 3))
    mistakes = (raised, replace(raised, message="'b'"), typed, replace(typed, message="reply() returned list"))
    failed = [
        replace(score("oracle", reward=None, functions={}, failure=each, again=()), task=task)
        for task, each in enumerate(mistakes)
    ]
    found = [each for each in findings(subject(scores=tuple(failed))) if each.rule == "RWD003"]
    assert [(each.place, each.message) for each in found] == [
        (Place("tests/oracle.py", 7), "the oracle failed on task 0: KeyError: 'a' (2 of 4 tasks)"),
        (Place("tests/oracle.py", 3), "the oracle failed on task 2: OracleError: reply() returned int (1 of 4 tasks)"),
        (Place("tests/oracle.py", 3), "the oracle failed on task 3: OracleError: reply() returned list (1 of 4 tasks)"),
    ]
