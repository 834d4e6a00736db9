"""CODEOWNERS follows the registry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from envwright.declarations.codeowners import render
from envwright.declarations.registry import EnvironmentEntry, Registry, load_registry

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


def test_codeowners_begins_with_the_maintainers() -> None:
    lines = render(replace(REGISTRY, maintainers=("@acme/maintainers", "@ada"))).splitlines()
    assert lines[1:] == ["* @acme/maintainers @ada", *render(REGISTRY).splitlines()[1:]]


def test_codeowners_of_this_repository_owns_every_file() -> None:
    root = Path(__file__).parents[2]
    rows = [line.split() for line in (root / "CODEOWNERS").read_text("utf-8").splitlines() if line[0] != "#"]
    assert rows[0][0] == "*"
    assert all(owners for _, *owners in rows)


def test_codeowners_of_this_repository_is_current() -> None:
    root = Path(__file__).parents[2]
    assert (root / "CODEOWNERS").read_text("utf-8") == render(load_registry(root))
