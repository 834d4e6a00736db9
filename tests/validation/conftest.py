"""Folders of one workspace for the whole session, which is thrown away; virtual environments stay."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from envwright.system.workspace import Workspace
from recorded_requests import RecordedObservations
from sample_packages import Seen, look_at, write_package

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sample_packages import Observe

sys.path.append(str(Path(__file__).parents[1] / "rules"))  # subjects of rules are stored here, too


@pytest.fixture
def fresh(tmp_path: Path) -> Workspace:
    """A workspace of the test's own: no wheels, no facts, no scratch folders."""
    return Workspace(tmp_path / "fresh")


@pytest.fixture(scope="session")
def environments(workspace: Workspace) -> Path:
    """The folder `environments/` of that workspace."""
    folder = workspace.root / "environments"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def no_loop() -> Iterator[None]:
    """A browser that another test of this process opened keeps a loop of its own running."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


@pytest.fixture
def observations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RecordedObservations:
    """Observations of a package with recorded processes."""
    return RecordedObservations(tmp_path, monkeypatch)


@pytest.fixture
def observe(environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch) -> Observe:
    """Writes a package and observes it afresh, as `look_at` does."""

    def observed(name: str, generation: str, files: Mapping[str, str], settings: str = "", **options: Any) -> Seen:
        package = write_package(environments / name, generation, files, settings=settings)
        return look_at(package, workspace, patch, **options)

    return observed


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    """A monkeypatch for fixtures that live longer than one test."""
    with pytest.MonkeyPatch.context() as made:
        yield made
