"""Cases of the rules that compare with a base (RWD090–RWD092)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from envwright.rules.engine import Subject
from envwright.statistics.reward_comparison import ComparedVersion, RewardComparison, ScoredReply, Scoring
from envwright.statistics.task_matching import TwoSides
from rule_cases import RuleCases
from subjects import CORRECT, FORMAT, LENGTH, functions, says, subject

FUNCTIONS = (CORRECT, FORMAT, LENGTH)


def side(version: str = "0.1.0", name: str = "plain-sums") -> ComparedVersion:
    return ComparedVersion("main", name, version, "v1", "sha256:0", FUNCTIONS)


def scoring(correct: float | None, form: float | None = 1.0, length: float = 12.0) -> Scoring:
    reward = None if correct is None or form is None else 0.8 * correct + 0.2 * form
    return Scoring(reward, functions(correct, form, length))


def reply(base: Scoring, head: Scoring, said_by: str = "near-miss") -> ScoredReply:
    return ScoredReply(said_by, TwoSides(0, 0), says("<answer>5</answer>"), TwoSides(base, head))


def compared(
    *replies: ScoredReply, base: str = "0.1.0", head: str = "0.1.0", ported: bool = False, **changes: Any
) -> Subject:
    original = side(base, "old-sums" if ported else "plain-sums")
    return replace(
        subject(), comparison=RewardComparison(TwoSides(original, side(head)), replies, matched=3, **changes)
    )


SAME = reply(scoring(0.0), scoring(0.0))
MORE = reply(scoring(0.0), scoring(1.0))
GONE = reply(scoring(0.0), scoring(None))
OFFSET = reply(
    Scoring(1.0, functions(1.0, 1.0)),
    Scoring(1.0, functions(0.75, 1.0)),
)
METRIC = reply(scoring(0.0, length=3.0), scoring(0.0, length=4.0))
ROUNDED = reply(Scoring(0.1 + 0.2), Scoring(0.3))

CASES = {
    "RWD090": RuleCases(
        fires={
            "a reward rose": compared(SAME, MORE),
            "a reward is missing now": compared(GONE),
            "a reward is no longer missing": compared(reply(scoring(None), scoring(0.0))),
            "two functions changed and their sum did not": compared(OFFSET),
            "the version went down": compared(MORE, base="0.2.0"),
            "nothing could be compared": compared(unmatched_tasks=TwoSides((0, 1), (0, 1))),
        },
        silent={
            "nothing was compared with": subject(),
            "nothing changed": compared(SAME, SAME),
            "the version was raised": compared(MORE, head="0.1.1"),
            "the version has more digits": compared(MORE, base="0.9.0", head="0.10.0"),
            "only a metric changed": compared(METRIC),
            "the sum was made in another order": compared(ROUNDED),
            "missing before and after": compared(reply(scoring(None), scoring(None))),
            "another package": compared(MORE, ported=True),
        },
    ),
    "RWD091": RuleCases(
        fires={"the version was raised": compared(MORE, head="0.2.0")},
        silent={
            "the version was not raised": compared(MORE),
            "the version was raised and nothing changed": compared(SAME, head="0.2.0"),
            "nothing was compared with": subject(),
            "another package": compared(MORE, head="0.2.0", ported=True),
        },
    ),
    "RWD092": RuleCases(
        fires={
            "a port pays more": compared(MORE, ported=True),
            "a port pays more under a higher version": compared(MORE, head="1.0", ported=True),
            "a metric of a port is another": compared(reply(scoring(1.0), scoring(1.0, length=64.0)), ported=True),
            "no task of the original is in the port": compared(ported=True),
        },
        silent={
            "a port pays the same": compared(SAME, ported=True),
            "the same package": compared(MORE),
            "nothing was compared with": subject(),
        },
    ),
}
