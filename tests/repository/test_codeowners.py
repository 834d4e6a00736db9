"""CODEOWNERS follows the registry."""

from __future__ import annotations

from pathlib import Path

from envops.repository.codeowners import codeowners_problems, render
from envops.repository.registry import EnvironmentEntry, Registry, load_registry
from sample_repository import only, write

REGISTRY = Registry(
    "acme",
    {
        "word-sums": EnvironmentEntry("word-sums", owners=("@acme/rl", "a@example.org")),
        "nobody": EnvironmentEntry("nobody"),
        "alpha": EnvironmentEntry("alpha", owners=("@ada",)),
    },
)


def test_codeowners_lists_environments_in_folder_order() -> None:
    assert render(REGISTRY).splitlines()[1:] == [
        "/environments/alpha/ @ada",
        "/environments/word_sums/ @acme/rl a@example.org",
    ]


def test_codeowners_as_generated_has_no_problem(tmp_path: Path) -> None:
    write(tmp_path, {"CODEOWNERS": render(REGISTRY)})
    assert codeowners_problems(REGISTRY, tmp_path) == []


def test_codeowners_line_that_differs_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"CODEOWNERS": render(REGISTRY).replace("@ada", "@eve")})
    problem = only(codeowners_problems(REGISTRY, tmp_path))
    assert (problem.line, problem.found, problem.allowed) == (
        2,
        "/environments/alpha/ @eve",
        "/environments/alpha/ @ada",
    )


def test_codeowners_extra_line_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"CODEOWNERS": render(REGISTRY) + "* @eve\n"})
    problem = only(codeowners_problems(REGISTRY, tmp_path))
    assert (problem.line, problem.found, problem.allowed) == (4, "* @eve", "no such line")


def test_codeowners_missing_file_names_the_fix(tmp_path: Path) -> None:
    assert only(codeowners_problems(REGISTRY, tmp_path, "do this")).fix == "do this"


def test_codeowners_of_this_repository_is_current() -> None:
    root = Path(__file__).parents[2]
    assert codeowners_problems(load_registry(root), root) == []
