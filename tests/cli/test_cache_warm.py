"""Filling uv's cache in CI: the packages of every different lock once, without running them."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from envwright import exit_codes
from envwright.cli.main import main
from envwright.facts.observed import Failure
from envwright.system.subprocesses import ProgramFailed

ROOT = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three environments, two of which have the same lock."""
    names = ("reverse_text", "word_problems", "date_arithmetic")
    for name in names:
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "environments" / name, tmp_path / "environments" / name, ignore=left_out)
    entries = "".join(f"  {name.replace('_', '-')}: {{}}\n" for name in names)
    (tmp_path / "registry.yaml").write_text(f"version: 1\nowner: acme\nenvironments:\n{entries}")
    return tmp_path


def test_cache_warm_downloads_each_different_lock_once(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read: list[bytes] = []

    def download(lock: Path, _: threading.Event) -> None:
        read.append(lock.read_bytes())

    monkeypatch.setattr("envwright.cli.cache.download", download)

    assert main(["cache", "warm", "--root", str(repository)]) == exit_codes.PASS
    assert len(read) == len(set(read)) == 2 + 3, "two of the repository, three of the tool"
    assert "/5 date_arithmetic/requirements.lock" in capsys.readouterr().err


def test_cache_warm_leaves_out_what_needs_a_build(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def download(lock: Path, _: threading.Event) -> None:
        if lock.parent.name == "date_arithmetic":
            raise ProgramFailed(Failure("infrastructure", "VirtualEnvironmentFailed", "a wheel is missing"))

    monkeypatch.setattr("envwright.cli.cache.download", download)

    assert main(["cache", "warm", "--root", str(repository)]) == exit_codes.ERROR
    assert "date_arithmetic/requirements.lock was left out: a wheel is missing" in capsys.readouterr().err
