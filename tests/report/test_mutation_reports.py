"""Every report says how many mutants there were and what became of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from envops.observe.mutation_facts import Mutant, Mutation, ToldApart
from envops.report.json_report import render_json
from envops.report.markdown import render_markdown
from envops.report.mutation import mutation_sentence
from envops.report.result import EnvironmentResult, ValidationResult
from envops.report.terminal import render_text

DIFF = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x == 1\n+x != 1\n"
APART = ToldApart(0, ({"role": "assistant", "content": "\x1b[31mhostile"},), {"reward": 0.0}, {"reward": 1.0})


def mutant(outcome: Any, **changes: Any) -> Mutant:
    return Mutant(f"a.f:flip:{outcome}", "flip comparison", "f", "a.py", 1, DIFF, outcome, **changes)


MUTATION = Mutation(
    exist=90,
    unreached=4,
    bound="count",
    most=60,
    seconds_allowed=4.0,
    mutants=(mutant("killed"), mutant("timeout"), mutant("survived", apart=APART), mutant("equivalent", reason="same")),
    conversations=40,
    cases=12,
    seconds=1.5,
)
RESULT = ValidationResult(
    "pass",
    environments=(EnvironmentResult("a-b", "environments/a_b", "pass", gates={"rewards": "pass"}, mutation=MUTATION),),
    gates=("rewards",),
)


def test_the_sentence_names_all_counts_and_the_bound():
    assert mutation_sentence(MUTATION) == (
        "mutation score 0.67: 4 mutants tried (a sample of 90): 1 killed, 1 timed out, 1 survived, 1 equivalent; "
        "40 conversations, 12 of them cases; 1.5 s"
    )


def test_mutants_that_were_not_decided_are_counted_and_have_no_say_in_the_score():
    slow = replace(MUTATION, bound="time", mutants=(*MUTATION.mutants, mutant("undecided", by="the time was up")))
    assert mutation_sentence(slow) == (
        "mutation score 0.67: 5 mutants tried (of 90, not all of them decided): 1 killed, 1 timed out, 1 survived, "
        "1 equivalent, 1 not decided; 40 conversations, 12 of them cases; 1.5 s"
    )
    none = replace(MUTATION, bound="time", mutants=(mutant("undecided"),) * 3)
    assert mutation_sentence(none).startswith("mutation score –: 3 mutants tried (of 90, not all of them decided)")


def test_the_terminal_and_the_job_summary_say_it():
    assert "mutation score 0.67" in render_text(RESULT, width=200)
    assert "mutation score 0.67" in render_markdown(RESULT)


def test_quiet_says_nothing_of_it():
    assert "mutation" not in render_text(RESULT, quiet=True)


def test_json_holds_every_mutant():
    [environment] = json.loads(render_json(RESULT))["environments"]
    found = environment["mutation"]
    assert found["score"] == 2 / 3
    assert [each["outcome"] for each in found["mutants"]] == ["killed", "timeout", "survived", "equivalent"]
    assert found["mutants"][0]["diff"] == DIFF
    assert found["mutants"][2]["apart"]["original"] == {"reward": 0.0}
    assert found["mutants"][3]["reason"] == "same"


def test_json_says_where_there_was_none():
    result = ValidationResult("pass", environments=(EnvironmentResult("a-b", "environments/a_b", "pass"),))
    assert json.loads(render_json(result))["environments"][0]["mutation"] is None
