"""At 80 columns, without colour, in a log: everything is readable, and the end has the verdict and the next command."""

from __future__ import annotations

from dataclasses import replace

from envwright.facts.mutation import Mutant, Mutation
from envwright.facts.search import Search
from envwright.reports.result import ValidationResult
from envwright.reports.terminal import MOST_SENTENCES, render_text
from sample_results import FAILING

MUTANTS = (Mutant("a", "o", "f", "x.py", 1, "", "killed"), Mutant("b", "o", "f", "x.py", 2, "", "survived"))
MUTATION = Mutation(2, 0, "all", 60, 4.0, MUTANTS, conversations=9, cases=2)


def many() -> ValidationResult:
    """Nine environments with long names, mutants and searches."""
    named = [
        replace(
            FAILING,
            name=f"a-name-that-is-rather-long-for-a-table-{number}",
            mutation=MUTATION,
            search=Search(0, "time"),
        )
        for number in range(9)
    ]
    return ValidationResult("fail", tuple(named), seconds=4.0, tool="0.1.0")


def test_terminal_shows_many_environments_in_one_line_each() -> None:
    text = render_text(many(), width=80, verbose=True)
    assert len(many().environments) > MOST_SENTENCES
    assert "mutation score" not in text
    rows = [line.split()[-5:] for line in text.splitlines() if "50%" in line]
    assert rows == [["2", "50%", "1", "no", "exploits"]] * 9
