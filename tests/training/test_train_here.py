"""`envops train RUN` for a run of this machine, as far as it goes without torch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from envops.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The registry with its compiled runs and the environment that the run of this machine uses."""
    shutil.copytree(ROOT / "environments" / "reverse_text", tmp_path / "environments" / "reverse_text")
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    shutil.copy(ROOT / "registry.yaml", tmp_path)
    return tmp_path


def test_what_training_here_needs_is_named_with_what_installs_it(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "reverse-text-here", "--root", str(copied)]) == 2
    said = capsys.readouterr().err
    assert "training here needs torch, trl" in said
    assert "tools/requirements-trl.lock" in said


def test_a_compiled_file_that_is_out_of_date_is_not_trained(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = copied / "configs" / "rl" / "reverse-text-here.toml"
    file.write_text(file.read_text().replace("max_steps = 100", "max_steps = 9999"))
    assert main(["train", "reverse-text-here", "--root", str(copied)]) == 2
    assert "reverse-text-here.toml differs from registry.yaml" in capsys.readouterr().err


def test_without_being_named_a_run_of_this_machine_is_only_told_of(
    copied: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRIME_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(copied))
    assert main(["train", "reverse-text-here", "--dry-run", "--root", str(copied)]) == 0
    assert "nox -s train -- reverse-text-here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        (["probe", "reverse-text"], "tools/requirements-trl.lock"),
        (["reverse-text-here"], "tools/requirements-trl.lock"),
        (["file", "run.toml"], "tools/requirements-trl.lock"),
        (["reverse-text-4b"], "tools/requirements-prime.lock"),
        (["compile"], "tools/requirements-prime.lock"),
        (["--dry-run"], "tools/requirements-prime.lock"),
    ],
)
def test_a_session_installs_what_the_call_needs(
    arguments: list[str], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "requirements", "--", *arguments, "--root", str(ROOT)]) == 0
    assert capsys.readouterr().out.strip() == file
    assert (ROOT / file).is_file()
