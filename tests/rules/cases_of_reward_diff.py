"""Cases of the rules that compare with a base (RWD090–RWD092)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from envwright.rules.engine import Subject
from envwright.statistics.reward_comparison import ComparedVersion, RewardComparison, ScoredReply, Scoring, TwoSides
from rule_cases import RuleCases
from subjects import CORRECT, FORMAT, LENGTH, functions, says, subject

FUNCTIONS = (CORRECT, FORMAT, LENGTH)


def side(version: str = "0.1.0", name: str = "plain-sums") -> ComparedVersion:
    return ComparedVersion("main", name, version, "v1", "sha256:0", FUNCTIONS)


def scoring(correct: float | None, length: float = 12.0) -> Scoring:
    return Scoring(None if correct is None else 0.8 * correct + 0.2, functions(correct, 1.0, length))


def reply(base: Scoring, head: Scoring, said_by: str = "near-miss") -> ScoredReply:
    return ScoredReply(said_by, TwoSides(0, 0), says("<answer>5</answer>"), TwoSides(base, head))


def compared(*replies: ScoredReply, head: str = "0.1.0", ported: bool = False, **changes: Any) -> Subject:
    original = side(name="old-sums" if ported else "plain-sums")
    return replace(
        subject(), comparison=RewardComparison(TwoSides(original, side(head)), replies, matched=3, **changes)
    )


SAME = reply(scoring(0.0), scoring(0.0))
MORE = reply(scoring(0.0), scoring(1.0))
OFFSET = reply(
    Scoring(1.0, functions(1.0, 1.0)),
    Scoring(1.0, functions(0.75, 1.0)),
)

CASES = {
    "RWD090": RuleCases(
        fires={
            "a reward rose": compared(SAME, MORE),
            "two functions changed and their sum did not": compared(OFFSET),
            "nothing could be compared": compared(unmatched_tasks=TwoSides((0, 1), (0, 1))),
        },
        silent={
            "nothing changed": compared(SAME, SAME),
            "the version was raised": compared(MORE, head="0.1.1"),
            "another package": compared(MORE, ported=True),
        },
    ),
    "RWD091": RuleCases(
        fires={"the version was raised": compared(MORE, head="0.2.0")},
        silent={
            "the version was not raised": compared(MORE),
            "the version was raised and nothing changed": compared(SAME, head="0.2.0"),
            "another package": compared(MORE, head="0.2.0", ported=True),
        },
    ),
    "RWD092": RuleCases(
        fires={
            "a port pays more": compared(MORE, ported=True),
            "no task of the original is in the port": compared(ported=True),
        },
        silent={
            "a port pays the same": compared(SAME, ported=True),
            "the same package": compared(MORE),
        },
    ),
}
