"""The default owners of an adopted environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from envwright.authoring.adopting.adopt import default_owners
from envwright.declarations.registry import EnvironmentEntry, Registry
from envwright.packages.git import git

EMPTY = Registry("acme", {})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "user.email", "ada@example.org")
    return tmp_path


def test_default_owners_are_those_of_most_environments(root: Path):
    (root / "CODEOWNERS").write_text("* @acme/everybody\n")
    entries = {name: EnvironmentEntry(name=name, owners=(f"@acme/{name[0]}",)) for name in ("a1", "a2", "b1")}
    assert default_owners(Registry("acme", entries), root) == ("@acme/a",)


@pytest.mark.parametrize("place", ["CODEOWNERS", ".github/CODEOWNERS"])
def test_default_owners_of_an_empty_registry_are_in_codeowners(place: str, root: Path):
    (root / place).parent.mkdir(exist_ok=True)
    (root / place).write_text(
        "* @acme/everybody\n/environments/ @acme/envs ada@example.org # these\n/environments/sums/ @x\n"
    )
    assert default_owners(EMPTY, root) == ("@acme/envs", "ada@example.org")


def test_default_owner_without_codeowners_is_the_git_user(root: Path):
    assert default_owners(EMPTY, root) == ("ada@example.org",)
