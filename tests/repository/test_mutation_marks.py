"""Marks of equivalent mutants in pyproject.toml, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from envwright.declarations.package import EquivalentMutant
from envwright.packages.pyproject import read_pyproject
from envwright.packages.settings import read_equivalent_mutants, read_settings

if TYPE_CHECKING:
    from pathlib import Path

    from envwright.declarations.problem import Problem


def read(folder: Path, text: str) -> tuple[tuple[EquivalentMutant, ...], list[Problem]]:
    (folder / "pyproject.toml").write_text(text)
    pyproject = read_pyproject(folder / "pyproject.toml", folder)
    marks, problems = read_equivalent_mutants(pyproject)
    return marks, [*read_settings(pyproject)[-1], *problems]


def test_mutation_marks_are_read(tmp_path: Path):
    entry = '[tool.envwright.mutation]\nequivalent = [{ mutant = "a.b:c:0", reason = "same result" }]\n'
    marks, problems = read(tmp_path, entry)
    assert not problems
    assert marks == (EquivalentMutant("a.b:c:0", "same result"),)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{ mutant = "a" }', "lacks the key reason"),
        ('{ reason = "a" }', "lacks the key mutant"),
        ('{ mutant = "a", reason = "" }', "has a reason that is not text"),
        ('{ mutant = 3, reason = "a" }', "has a mutant that is not text"),
        ('{ mutant = "a", reason = "b", resaon = "c" }', "is not a known key"),
        ('"a.b:c:0"', "is not a mark of a mutant"),
    ],
)
def test_mutation_mark_that_is_wrong_is_a_problem_with_line(tmp_path: Path, entry: str, message: str):
    marks, problems = read(tmp_path, f"[tool.envwright.mutation]\nequivalent = [\n  {entry},\n]\n")
    assert message in {problem.message for problem in problems}
    assert all(problem.line in (2, 3) for problem in problems)
    assert marks == ()


def test_mutation_table_with_unknown_key_or_type_is_a_problem(tmp_path: Path):
    _, problems = read(tmp_path, '[tool.envwright.mutation]\nequivalant = []\nequivalent = "all"\n')
    assert {problem.message for problem in problems} == {"is not a known key", "is not an allowed value"}
