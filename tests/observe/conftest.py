"""One workspace for the whole session: virtual environments are the repository's own, all else is thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from envops.observe.workspace import Workspace
from sample_packages import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def workspace_in(folder: Path) -> Workspace:
    made = Workspace(folder)
    shared = Workspace(REPOSITORY).venvs
    shared.mkdir(parents=True, exist_ok=True)
    made.base.mkdir(parents=True)
    made.venvs.symlink_to(shared)
    return made


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return workspace_in(tmp_path_factory.mktemp("repository"))


@pytest.fixture
def fresh(tmp_path: Path) -> Workspace:
    """A workspace of the test's own: no wheels, no facts, no scratch folders."""
    return workspace_in(tmp_path / "fresh")


@pytest.fixture(scope="session")
def environments(workspace: Workspace) -> Path:
    """The folder `environments/` of that workspace."""
    folder = workspace.root / "environments"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    """A monkeypatch for fixtures that live longer than one test."""
    with pytest.MonkeyPatch.context() as made:
        yield made
