"""Declarations that are wrong: exit code 2, file and line, nothing observed, nothing half-written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from envops import exit_codes
from envops.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one sound environment."""
    shutil.copytree(ROOT / "environments" / "reverse_text", tmp_path / "environments" / "reverse_text")
    (tmp_path / "registry.yaml").write_text("version: 1\nowner: acme\nenvironments:\n  reverse-text: {}\n")
    return tmp_path


@pytest.fixture
def refused(repository: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Validate, assert that it was refused, and give what was printed."""

    def validate(*arguments: str) -> str:
        assert main(["validate", "--root", str(repository), *arguments]) == exit_codes.USAGE
        assert not (repository / ".envops").exists()
        return capsys.readouterr().out

    return validate


def test_registry_with_malformed_yaml_is_refused(repository: Path, refused: Callable[..., str]) -> None:
    (repository / "registry.yaml").write_text("version: 1\nowner: [acme\nenvironments: {}\n")
    assert "registry.yaml:" in refused()


def test_registry_above_size_limit_is_refused(repository: Path, refused: Callable[..., str]) -> None:
    (repository / "registry.yaml").write_text("# " + "x" * 6_000_000)
    assert "5,000,000 bytes" in refused()


def test_registry_with_duplicate_keys_is_refused(repository: Path, refused: Callable[..., str]) -> None:
    (repository / "registry.yaml").write_text("version: 1\nowner: acme\nowner: other\nenvironments: {}\n")
    assert "registry.yaml:3" in refused()


def test_registry_unknown_key_suggests_the_nearest(repository: Path, refused: Callable[..., str]) -> None:
    (repository / "registry.yaml").write_text(
        "version: 1\nowner: acme\nenvironments:\n  reverse-text: {visibilty: PUBLIC}\n"
    )
    text = refused()
    assert "registry.yaml:4" in text
    assert "visibility" in text


def test_folder_missing_from_registry_is_refused(repository: Path, refused: Callable[..., str]) -> None:
    shutil.copytree(repository / "environments/reverse_text", repository / "environments/other_text")
    assert "environments/other_text" in refused()


def test_registry_entry_without_folder_is_refused(repository: Path, refused: Callable[..., str]) -> None:
    (repository / "registry.yaml").open("a").write("  missing-one: {}\n")
    assert "registry.yaml:5" in refused()


def test_distribution_name_used_twice_is_refused(repository: Path, refused: Callable[..., str]) -> None:
    shutil.copytree(repository / "environments/reverse_text", repository / "environments/text_reverse")
    (repository / "registry.yaml").open("a").write("  text-reverse: {}\n")
    assert "reverse-text" in refused()


def test_pyproject_that_does_not_parse_is_refused(repository: Path, refused: Callable[..., str]) -> None:
    (repository / "environments/reverse_text/pyproject.toml").write_text('[project]\nname = "reverse-text\n')
    assert "environments/reverse_text/pyproject.toml:2" in refused()


def test_lock_that_does_not_match_is_refused(repository: Path, refused: Callable[..., str]) -> None:
    pyproject = repository / "environments/reverse_text/pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('"verifiers>=0.4', '"nothing-here>=1", "verifiers>=0.4'))
    assert "nox -s lock -- reverse-text" in refused()


def test_lock_that_is_missing_is_refused(repository: Path, refused: Callable[..., str]) -> None:
    (repository / "environments/reverse_text/requirements.lock").unlink()
    assert "nox -s lock -- reverse-text" in refused()


def test_symlink_outside_repository_is_refused(repository: Path, refused: Callable[..., str]) -> None:
    folder = repository / "environments/reverse_text/reverse_text"
    (folder / "passwords.py").symlink_to("/etc/passwd")
    assert "passwords.py" in refused()


def test_unknown_environment_suggests_the_nearest(refused: Callable[..., str]) -> None:
    assert "reverse-text" in refused("reverse-txt")


def test_registry_that_is_missing_is_refused(repository: Path, refused: Callable[..., str]) -> None:
    (repository / "registry.yaml").unlink()
    assert "registry.yaml" in refused()


def test_registry_problems_are_reported_together(repository: Path, refused: Callable[..., str]) -> None:
    (repository / "registry.yaml").write_text("version: 2\nowner: acme\nenvironments:\n  reverse-text: {argz: {}}\n")
    text = refused()
    assert "registry.yaml:1" in text
    assert "registry.yaml:4" in text


def test_json_report_names_the_problems(repository: Path, refused: Callable[..., str]) -> None:
    (repository / "registry.yaml").write_text("version: 1\nowner: acme\nenvironments: []\n")
    refused()
    report = json.loads((repository / "reports/validate.json").read_text())
    assert [problem["file"] for problem in report["problems"]] == ["registry.yaml"]
