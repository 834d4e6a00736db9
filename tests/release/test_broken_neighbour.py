"""An environment that cannot be read stops no plan of the others."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from envops import exit_codes
from envops.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two environments, committed; then one is broken."""
    monkeypatch.delenv("PRIME_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    root = tmp_path / "root"
    for name in ("reverse_text", "word_problems"):
        shutil.copytree(ROOT / "environments" / name, root / "environments" / name)
    (root / "registry.yaml").write_text(
        "version: 1\nowner: acme\nenvironments:\n  reverse-text: {}\n  word-problems: {}\n"
    )
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True)
    (root / "environments/word_problems/pyproject.toml").write_text("[project\n")
    return root


@pytest.mark.parametrize("changed", [[], ["--changed", "HEAD"]])
def test_plan_shows_broken_environment_beside_the_others(
    changed: list[str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "environments/reverse_text/README.md").write_text("# other\n")
    assert main(["plan", "--root", str(root), *changed]) == exit_codes.FAIL
    assert "! acme/word-problems" in capsys.readouterr().out
    steps = {each["name"]: each for each in json.loads((root / "reports/plan.json").read_text())["environments"]}
    assert {name: step["action"] for name, step in steps.items()} == {
        "reverse-text": "not-asked",
        "word-problems": "broken",
    }
    assert "environments/word_problems/pyproject.toml" in steps["word-problems"]["reason"]


def test_plan_of_sound_environment_passes_beside_a_broken_one(root: Path) -> None:
    assert main(["plan", "--root", str(root), "reverse-text"]) == exit_codes.PASS
