"""Which results `validate` reads for reference replies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from envwright.cli import validate
from envwright.cli.main import main
from small_repository import small_repository


class NoResults(list[Any]):
    """The results of a run that validates nothing."""

    names: tuple[str, ...] = ()


@pytest.fixture
def requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The results that each run requests."""
    seen: list[Any] = []

    def recorded(request: Any, *_: Any) -> tuple[NoResults, bool]:
        seen.append(request.observation.results)
        return NoResults(), False

    monkeypatch.setattr(validate, "run_all", recorded)
    small_repository(tmp_path / "repository", "reverse_text")
    return seen


@pytest.mark.parametrize(("in_ci", "expected"), [(False, ()), (True, None)])
def test_results_that_lie_in_the_repository_are_not_read_in_ci(
    requested: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_ci: bool, expected: Any
):
    monkeypatch.setenv("CI", "true" if in_ci else "")
    main(["validate", "--root", str(tmp_path / "repository")])
    assert requested == [expected]


def test_named_results_are_read_everywhere(requested: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CI", "true")
    file = tmp_path / "results.jsonl"
    file.write_text("")
    main(["validate", "--root", str(tmp_path / "repository"), "--results", str(file)])
    assert requested == [(str(file),)]
