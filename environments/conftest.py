"""Lets `pytest environments/NAME` find cases and fixtures where the environment is installed.

`envwright test NAME` makes such a place and runs pytest there; see docs/environment.md.
"""

import importlib.util
import runpy
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pytest_configure(config):
    if importlib.util.find_spec("verifiers") is None:
        message = "verifiers is not installed here. To test an environment in its own place: envwright test NAME"
        raise pytest.UsageError(message)
    runpy.run_path(str(ROOT / "tools" / "envwright_worker" / "make_importable.py"))
    from envwright_worker.author_tests.grader import Grader
    from envwright_worker.author_tests.plugin import AuthorsPlugin
    from envwright_worker.author_tests.testing import opened, settings_of

    @cache
    def grader_of(folder):
        grader = Grader(lambda: opened(settings_of(folder)))
        config.add_cleanup(grader.close)
        return grader

    config.pluginmanager.register(AuthorsPlugin(grader_of))
