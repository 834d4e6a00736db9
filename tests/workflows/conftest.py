"""The repository of the tool, whose workflows a team's repository calls."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from called_workflows import TOOL
from merged_repository import tool_repository

sys.path.append(str(Path(__file__).parents[1] / "emulator"))


@pytest.fixture(scope="session")
def tool(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The repository by the name that callers know it by, for `Runner.repositories`."""
    return {TOOL: tool_repository(tmp_path_factory.mktemp("tool")).bare}
