"""What tests and searches bring along to the workers of a run, made before the first of them asks."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from envops.declare.package import Package
from envops.observe.bytecode_store import bytecode_store
from envops.observe.compiling import compile_some
from envops.observe.remembering import Wish
from envops.observe.searching import search_toolbox
from envops.observe.venv import VirtualEnvironment, is_compiled, mark_compiled, venv_for
from envops.observe.wheel import TESTS_LOCK
from envops.observe.workspace import Workspace

IMPORTED_BY_TESTS = "tests"
"""What is compiled before any test begins, of what they bring along: the rest is highlighting, two thirds of it."""


def make_toolboxes(
    packages: Sequence[Package], workspace: Workspace, wish: Wish, stop: threading.Event
) -> list[VirtualEnvironment]:
    """Make what tests and searches of these packages bring along; returns what still has to be compiled.

    Raises what `venv_for` and `compile_some` raise.
    """
    unfinished = []
    if wish.score and not wish.only_replies:
        if any(package.test_files for package in packages):
            tests = venv_for(TESTS_LOCK, workspace, stop, compiled=False)
            if not is_compiled(tests.folder):
                unfinished.append(tests)
            if not is_compiled(tests.folder, IMPORTED_BY_TESTS):
                modules = ["pytest", *(f"_pytest.{path.stem}" for path in tests.site_packages.glob("_pytest/*.py"))]
                asked = {"modules": modules, "beside": 1, "store": bytecode_store(workspace).files}
                compile_some(tests, tests.site_packages, stop, asked)
                mark_compiled(tests.folder, IMPORTED_BY_TESTS)
        search_toolbox(workspace, stop)
    return unfinished
