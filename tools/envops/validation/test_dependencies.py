"""What tests and searches bring along to the workers of a run, made before the first of them asks."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from envops.repository.package import Package
from envops.repository.workspace import Workspace
from envops.validation.requests import Wish
from envops.validation.searching import search_toolbox
from envops.validation.venv import venv_for
from envops.validation.wheel import TESTS_LOCK


def make_toolboxes(packages: Sequence[Package], workspace: Workspace, wish: Wish, stop: threading.Event) -> None:
    """Make what tests and searches of these packages bring along. Raises what `venv_for` raises."""
    if wish.score and not wish.only_replies:
        if any(package.test_files for package in packages):
            venv_for(TESTS_LOCK, workspace, stop)
        search_toolbox(workspace, stop)
