"""hypothesis as the worker imports it."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest
from envwright.builds.venv import TESTS_LOCK, venv_for
from envwright.system.workspace import Workspace

sys.path.insert(0, str(Path(__file__).parents[1] / "defects"))  # forked workers and sound oddities are kept there


@pytest.fixture(scope="session")
def hypothesis(workspace: Workspace) -> None:
    """hypothesis can be imported, prepared as in the worker."""
    from envwright_worker.search import properties

    toolbox = str(venv_for(TESTS_LOCK, workspace, threading.Event()).site_packages)
    if toolbox not in sys.path:
        sys.path.append(toolbox)
    properties.prepare(os.devnull)
