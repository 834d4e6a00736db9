"""Observations of planted environments, and limits on replies that hang."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from envwright.observing.stages import invariants, rewards
from envwright.system.workspace import Workspace
from observed import Observations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.observing.templates import LockTemplates


@pytest.fixture(scope="module", autouse=True)
def impatience() -> Iterator[None]:
    """A reply that hangs hangs for two seconds only; other suites of the same process keep their own limit."""
    with pytest.MonkeyPatch.context() as patch:
        for stage in (rewards, invariants):
            patch.setattr(stage, "SECONDS_PER_REPLY", 2.0)
        yield


@pytest.fixture(scope="session")
def observations(tmp_path_factory: pytest.TempPathFactory, lock_templates: LockTemplates) -> Observations:
    return Observations(Workspace(tmp_path_factory.mktemp("repository")), lock_templates)
