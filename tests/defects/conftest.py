"""One process per generation for the whole session, made when it is first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from envops.observe import observation
from envops.observe.workspace import Workspace
from forked_workers import Forking

if TYPE_CHECKING:
    from collections.abc import Iterator


class Generations(dict[str, Forking]):
    """Generation → the process that its workers are forked from."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        super().__init__()
        self._folder = factory.mktemp("forks")
        self._workspace = Workspace(self._folder / "repository")

    def __missing__(self, generation: str) -> Forking:
        self[generation] = Forking(generation, self._folder, self._workspace)
        return self[generation]


@pytest.fixture(scope="session", autouse=True)
def impatience() -> Iterator[None]:
    """A reply that hangs hangs for two seconds only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observation, "SECONDS_PER_REPLY", 2.0)
        yield


@pytest.fixture(scope="session")
def generations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generations]:
    made = Generations(tmp_path_factory)
    yield made
    for forking in made.values():
        forking.end()
