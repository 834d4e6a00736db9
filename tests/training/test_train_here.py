"""`envwright train RUN` for a run of this machine, as far as it goes without torch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from envwright.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The registry with its compiled runs and the environment that the run of this machine uses."""
    shutil.copytree(ROOT / "environments" / "reverse_text", tmp_path / "environments" / "reverse_text")
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    shutil.copy(ROOT / "registry.yaml", tmp_path)
    return tmp_path


def test_local_training_without_packages_names_the_session(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "reverse-text-here", "--root", str(copied)]) == 2
    output = capsys.readouterr().err
    assert "training here needs torch, trl" in output
    assert output.endswith("run: nox -s envwright -- train RUN\n")


def test_local_training_with_outdated_file_is_refused(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = copied / "configs" / "rl" / "reverse-text-here.toml"
    file.write_text(file.read_text().replace("max_steps = 100", "max_steps = 9999"))
    assert main(["train", "reverse-text-here", "--root", str(copied)]) == 2
    assert "reverse-text-here.toml differs from registry.yaml" in capsys.readouterr().err


def test_local_training_in_dry_run_prints_its_command(
    copied: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRIME_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(copied))
    assert main(["train", "reverse-text-here", "--dry-run", "--root", str(copied)]) == 0
    assert "envwright train reverse-text-here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["probe", "reverse-text"], "train"),
        (["reverse-text-here"], "train"),
        (["serve", "reverse-text-here"], "train"),
        (["serve", "reverse-text-4b"], "prime"),
        (["file", "run.toml"], "train"),
        (["reverse-text-4b"], "prime"),
        (["compile"], "prime"),
        (["--dry-run"], "prime"),
    ],
)
def test_train_requirements_depend_on_arguments(
    arguments: list[str], extra: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ci", "requirements", "--", *arguments, "--root", str(ROOT)]) == 0
    assert capsys.readouterr().out.strip() == extra
