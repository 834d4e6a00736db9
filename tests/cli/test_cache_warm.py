"""Filling uv's cache in CI: the packages of every different lock once, without running them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from envwright import exit_codes
from envwright.cli.main import main
from envwright.facts.observed import Failure
from envwright.system.subprocesses import ProgramFailed
from small_repository import small_repository


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three environments, two of which have the same lock."""
    return small_repository(tmp_path / "repository", "reverse_text", "word_problems", "date_arithmetic")


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
