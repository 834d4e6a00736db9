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


def test_every_environment_with_owners_has_a_line_in_order_of_folders() -> None:
    assert render(REGISTRY).splitlines()[1:] == [
        "/environments/alpha/ @ada",
        "/environments/word_sums/ @acme/rl a@example.org",
    ]


def test_what_was_generated_has_not_drifted(tmp_path: Path) -> None:
    write(tmp_path, {"CODEOWNERS": render(REGISTRY)})
    assert codeowners_problems(REGISTRY, tmp_path) == []


def test_a_line_that_drifted_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"CODEOWNERS": render(REGISTRY).replace("@ada", "@eve")})
    problem = only(codeowners_problems(REGISTRY, tmp_path))
    assert (problem.line, problem.found, problem.allowed) == (
        2,
        "/environments/alpha/ @eve",
        "/environments/alpha/ @ada",
    )


def test_a_line_too_many_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"CODEOWNERS": render(REGISTRY) + "* @eve\n"})
    problem = only(codeowners_problems(REGISTRY, tmp_path))
    assert (problem.line, problem.found, problem.allowed) == (4, "* @eve", "no such line")


def test_a_missing_file_says_how_to_write_it(tmp_path: Path) -> None:
    assert only(codeowners_problems(REGISTRY, tmp_path, "do this")).fix == "do this"


def test_codeowners_of_this_repository_has_not_drifted() -> None:
    root = Path(__file__).parents[2]
    assert codeowners_problems(load_registry(root), root) == []
