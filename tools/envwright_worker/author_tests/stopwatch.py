"""A pytest plugin that stops a test that hangs, so that the others still run."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from envwright_worker.failures import OutOfTime
from envwright_worker.session import time_limit

TEST_SECONDS = 60.0
"""Seconds after which a test counts as hanging."""
IMPATIENT_SECONDS = 10.0
"""The limit of a test after another one hung: later tests often hang on the same reward."""


class Stopwatch:
    """A time limit for each test, and a shorter one for tests after a test that hung."""

    def __init__(self, seconds: float = TEST_SECONDS, impatient: float = IMPATIENT_SECONDS) -> None:
        self._seconds = seconds
        self._impatient = impatient

    @pytest.hookimpl(wrapper=True)  # type: ignore[untyped-decorator]
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        """Run one test under the limit; its traceback shows the line at which the time ran out."""
        try:
            with time_limit(self._seconds):
                return (yield)
        except OutOfTime:
            self._seconds = min(self._seconds, self._impatient)
            raise
