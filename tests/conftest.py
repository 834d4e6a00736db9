"""Fixtures and options of all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import pytest
from envops.facts import stages
from envops.text.commands import STARTED_BY


@pytest.fixture(autouse=True, scope="session")
def users_cache() -> None:
    """Virtual environments of tests are this checkout's own, and outlive the tests."""
    os.environ.setdefault("ENVOPS_CACHE_DIR", str(Path(__file__).parents[1] / ".envops" / "users"))


@pytest.fixture(autouse=True, scope="session")
def started_by_nox() -> None:
    """Commands in messages are sessions, as in the code; `tests/text/test_commands.py` tests the other form."""
    os.environ.setdefault(STARTED_BY, "nox")


@pytest.fixture(autouse=True, scope="session")
def interrupts() -> None:
    """Programs that tests start receive Ctrl-C, even if a shell runs the tests in the background."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # what is ignored stays so in every program started here
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def stage_cost(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, float], None]:
    """Allows a stage other seconds than the table does."""

    def change(name: str, seconds: float) -> None:
        table = tuple(replace(each, cost=seconds) if each.name == name else each for each in stages.STAGES)
        monkeypatch.setattr(stages, "STAGES", table)

    return change


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that needs torch is selected only where torch is installed, so there a skip is a failure."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("torch"):
        report.outcome = "failed"
    return report
