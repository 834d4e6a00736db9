"""Lets `pytest environments/NAME` find cases and fixtures where the environment is installed.

`nox -s test -- NAME` makes such a place and runs pytest there; see docs/environment.md.
"""

import importlib.util
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKER = ROOT / "tools" / "envops_worker"


def pytest_configure(config):
    if importlib.util.find_spec("verifiers") is None:
        message = "verifiers is not installed here. To test an environment in its own place: nox -s test -- NAME"
        raise pytest.UsageError(message)
    if "envops_worker" not in sys.modules:
        place = WORKER / "__init__.py"
        spec = importlib.util.spec_from_file_location("envops_worker", place, submodule_search_locations=[str(WORKER)])
        sys.modules["envops_worker"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["envops_worker"])
    from envops_worker.author_tests.grader import Grader
    from envops_worker.author_tests.plugin import AuthorsPlugin
    from envops_worker.author_tests.testing import opened, settings_of

    @cache
    def grader_of(folder):
        grader = Grader(lambda: opened(settings_of(folder)))
        config.add_cleanup(grader.close)
        return grader

    config.pluginmanager.register(AuthorsPlugin(grader_of))
