"""Marks of equivalent mutants in pyproject.toml, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from envops.repository.package import EquivalentMutant
from envops.repository.pyproject import read_pyproject
from envops.repository.settings import read_mutation_settings, read_settings

if TYPE_CHECKING:
    from pathlib import Path

    from envops.repository.package import MutationDeclaration
    from envops.repository.problem import Problem


def read(folder: Path, text: str) -> tuple[MutationDeclaration, list[Problem]]:
    (folder / "pyproject.toml").write_text(text)
    pyproject = read_pyproject(folder / "pyproject.toml", folder)
    declaration, problems = read_mutation_settings(pyproject)
    return declaration, [*read_settings(pyproject)[-1], *problems]


def test_marks_are_read(tmp_path: Path):
    entry = '[tool.envops.mutation]\nequivalent = [{ mutant = "a.b:c:0", reason = "same result" }]\n'
    declaration, problems = read(tmp_path, entry)
    assert not problems
    assert declaration.equivalent == (EquivalentMutant("a.b:c:0", "same result"),)


def test_no_table_is_no_marks(tmp_path: Path):
    declaration, problems = read(tmp_path, "[project]\n")
    assert not problems
    assert declaration.equivalent == ()


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
def test_a_wrong_mark_is_a_problem_with_its_line(tmp_path: Path, entry: str, message: str):
    declaration, problems = read(tmp_path, f"[tool.envops.mutation]\nequivalent = [\n  {entry},\n]\n")
    assert message in {problem.message for problem in problems}
    assert all(problem.line in (2, 3) for problem in problems)
    assert declaration.equivalent == ()


def test_a_mutant_is_marked_once(tmp_path: Path):
    mark = '{ mutant = "a", reason = "b" }'
    declaration, problems = read(tmp_path, f"[tool.envops.mutation]\nequivalent = [{mark}, {mark}]\n")
    assert [problem.message for problem in problems] == ["is marked already"]
    assert len(declaration.equivalent) == 1


def test_an_unknown_key_and_a_wrong_kind_are_problems(tmp_path: Path):
    _, problems = read(tmp_path, '[tool.envops.mutation]\nequivalant = []\nequivalent = "all"\n')
    assert {problem.message for problem in problems} == {"is not a known key", "is not an allowed value"}
