"""Cases in which the rules on mutation testing fire, and in which they are silent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envwright.facts.mutation import Mutant, Mutation, StaleMark, ToldApart
from rule_cases import RuleCases
from subjects import failure, says, subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envwright.rules.engine import Subject

DIFF = """\
--- a/plain_sums/taskset.py
+++ b/plain_sums/taskset.py
@@ -20,3 +20,3 @@
     answer = parsed(reply)
-    return float(answer == wanted)
+    return float(answer != wanted)
"""
APART = ToldApart(0, says("<answer>41</answer>"), {"reward": 0.0, "correct_answer": 0.0}, {"reward": 1.0})


def mutants(killed: int, survived: int, **changes: Any) -> tuple[Mutant, ...]:
    """Mutation facts with this many mutants of each kind; `changes` are those of the survivors."""
    plain = Mutant(
        "taskset.correct:flip-comparison:0a1b2c",
        "flip comparison",
        "correct",
        "plain_sums/taskset.py",
        21,
        DIFF,
        "killed",
    )
    survivor = replace(plain, **{"outcome": "survived", **changes})
    return (plain,) * killed + (survivor,) * survived


def mutated(killed: int = 20, survived: int = 0, changes: Mapping[str, Any] | None = None, **more: Any) -> Subject:
    """The sound environment with mutation testing of its reward code."""
    tried = mutants(killed, survived, **(changes or {}))
    fields: dict[str, Any] = {
        "exist": len(tried),
        "unreached": 0,
        "bound": "all",
        "most": 60,
        "seconds_allowed": 4.0,
        "mutants": tried,
        "conversations": 30,
        "cases": 5,
    }
    return subject(mutation=Mutation(**(fields | more)))


def undecided(killed: int, survived: int, open_ones: int, **more: Any) -> Subject:
    """The same where nothing was decided about some of them."""
    tried = (*mutants(killed, survived), *mutants(0, open_ones, outcome="undecided", by="the time limit was reached"))
    return mutated(mutants=tried, exist=len(tried), bound="time", **more)


CASES = {
    "RWD080": RuleCases(
        fires={"three of four noticed": mutated(30, 10)},
        silent={
            "nine of ten noticed": mutated(9, 1),
            "time was over too soon for a score": mutated(5, 5, exist=60, bound="time"),
            "nothing to mutate": mutated(0),
        },
    ),
    "RWD081": RuleCases(
        fires={"one survivor": mutated(20, 1), "detected by a reply": mutated(20, 1, {"apart": APART})},
        silent={"none survived": mutated(20)},
    ),
    "RWD082": RuleCases(
        fires={
            "a library's rewards alone": mutated(0),
            "it broke off": subject(failures={"mutation": failure("raised")}),
        },
        silent={"mutants were tried": mutated(3)},
    ),
    "RWD083": RuleCases(
        fires={"no such mutant": mutated(stale=(StaleMark("taskset.gone:flip-comparison:ffffff", "same result"),))},
        silent={"marks hold": mutated(10, 1, {"outcome": "equivalent", "reason": "same result"})},
    ),
    "RWD084": RuleCases(
        fires={
            "time was over after a handful of sixty": mutated(5, exist=60, bound="time"),
            "a conversation takes too long": undecided(30, 0, 10, unasked={"case 'a'": "it takes 3 s"}),
        },
        silent={
            "nearly all were decided": undecided(55, 0, 5),
            "time was over after enough of them": mutated(20, exist=60, bound="time"),
        },
    ),
}
