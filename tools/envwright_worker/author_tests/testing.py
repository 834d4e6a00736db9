"""The author's tests in a process of their own: pytest as on a command line, with the plugin.

python -c RUN_PYTEST REQUEST [pytest arguments]; REQUEST is a JSON file with settings, toolbox and cases.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from envwright_worker.adapters.adapter import Settings
from envwright_worker.author_tests import add_folders_of, add_toolbox
from envwright_worker.author_tests.grader import Grader
from envwright_worker.channel import Channel
from envwright_worker.confinement import NetworkGuard
from envwright_worker.failures import Sources
from envwright_worker.session import Session


def main() -> int:
    """Run pytest and return its exit code."""
    asked = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    arguments = [*add_toolbox(asked["toolbox"]), *sys.argv[2:]]
    sys.argv[1:] = arguments
    import pytest

    from envwright_worker.author_tests.plugin import AuthorsPlugin, CaseEntry

    settings = Settings.parse(asked["settings"])
    add_folders_of((settings.package / "tests").rglob("test_*.py"))
    guard = NetworkGuard(Sources(settings.overlay, settings.package), settings.allow_network)
    guard.watch()  # from the start, as in the gates: not only once the environment is loaded
    grader = Grader(lambda: _opened(asked["settings"], guard))
    try:
        plugin = AuthorsPlugin(grader, [CaseEntry(**case) for case in asked["cases"]])
        return int(pytest.main(arguments, plugins=[plugin]))
    finally:
        grader.close()


def _opened(settings: Mapping[str, Any], guard: NetworkGuard) -> Session:
    """A session with the environment loaded, whose facts are not sent."""
    from envwright_worker.operations import load

    session = Session(Channel(BytesIO(), BytesIO()), guard)
    load.answer(session, {"settings": dict(settings)})
    return session
