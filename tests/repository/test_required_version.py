"""A registry of another version of the tool: the message names the version, and hides what only looks like mistakes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from envwright import __version__
from envwright.declarations.problem import DeclarationError
from envwright.declarations.registry import load_registry

REST = "owner: acme\nenvironments: {}\n"


def problems(root: Path, text: str) -> str:
    (root / "registry.yaml").write_text(text)
    with pytest.raises(DeclarationError) as refused:
        load_registry(root)
    return str(refused.value)


def test_registry_that_requires_newer_tool_names_version_and_upgrade(tmp_path: Path):
    found = problems(tmp_path, f"version: 1\nrequires: '>=70.1'\nnew-key: 1\n{REST}")
    assert re.match(rf"registry.yaml:2: requires: this is envwright {re.escape(__version__)}", found)
    assert "install a version >=70.1: uv tool upgrade envwright" in found
    assert "new-key" not in found


def test_registry_that_requires_older_tool_names_the_bound(tmp_path: Path):
    found = problems(tmp_path, f"version: 1\nrequires: '<0.0.2'\n{REST}")
    assert "install a version <0.0.2, or change the bound here" in found
    assert "upgrade" not in found


def test_registry_of_newer_format_names_upgrade(tmp_path: Path):
    found = problems(tmp_path, f"version: 2\nnew-key: 1\n{REST}")
    assert found.startswith("registry.yaml:1: version: is the format of a newer envwright")
    assert "uv tool upgrade envwright" in found
    assert "new-key" not in found


@pytest.mark.parametrize("requires", ["''", "newer", "'>=1..'", "'~=1'", "['>=1']", "1.0"])
def test_requires_that_is_not_a_bound_is_reported_at_its_line(requires: str, tmp_path: Path):
    assert "registry.yaml:2: requires" in problems(tmp_path, f"version: 1\nrequires: {requires}\n{REST}")


@pytest.mark.parametrize("version", ["0", "", "'1'"])
def test_registry_without_known_format_names_the_fix(version: str, tmp_path: Path):
    assert re.search(
        r"registry.yaml:1: version: .*\n(.*\n)*    (allowed|fix): .*1",
        problems(tmp_path, f"version: {version}\n{REST}"),
    )


@pytest.mark.parametrize("line", ["", f"requires: '>={__version__}'\n", "requires: '>=0.0.1, <99'\n"])
def test_registry_of_older_tool_is_read(line: str, tmp_path: Path):
    (tmp_path / "registry.yaml").write_text(f"version: 1\n{line}{REST}")
    assert load_registry(tmp_path).owner == "acme"
