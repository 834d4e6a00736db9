"""The author's own pytest tests, run in a fork of the worker: verifiers is already imported."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from .apart import LATE, be_nice
from .aside import bring_back
from .failures import OutOfTime, Sources, shortened
from .grader import Grader, forked
from .session import Session

LOOK_SECONDS = 0.02
HARMLESS_PLUGINS = {"anyio"}
"""Plugins of other packages that leave nothing behind when they are used; with others, each fork begins alone."""
WITHOUT_TESTS = Path(__file__).parent / "search"
"""A folder that pytest may look through ahead; one of the process's own would be remembered."""


class AuthorTests:
    """The tests on their way: they run beside whatever the worker does next."""

    def __init__(self, folder: Path, files: list[str], toolbox: str, session: Session, seconds: float) -> None:
        self._said = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (a pipe that is full would stop the tests)
        self._child = os.fork()
        if self._child == 0:
            _be_the_test_process(folder, files, toolbox, session, self._said.fileno())
        self._deadline = time.monotonic() + seconds

    def outcomes(self) -> Iterator[dict[str, Any]]:
        """Outcomes as they come; ends the test process.

        Raises `OutOfTime` when the tests take longer than allowed and `ChildProcessError`
        when their process dies.
        """
        try:
            yield from _lines(self._said.fileno(), self._deadline, self._child)
        finally:
            self._said.close()
            _end_session(self._child)
            _, status = os.waitpid(self._child, 0)
        if os.waitstatus_to_exitcode(status) not in (0, 1, 5):
            raise ChildProcessError(f"the test process ended with {os.waitstatus_to_exitcode(status)}")


def _lines(said: int, deadline: float, child: int) -> Iterator[dict[str, Any]]:
    """Lines of the file until the test process is gone and all of them were read."""
    buffered, read = b"", 0
    while True:
        gone, late = _is_gone(child), time.monotonic() > deadline
        part = os.pread(said, 65536, read)
        read += len(part)
        *lines, buffered = (buffered + part).split(b"\n")
        yield from (json.loads(line) for line in lines)
        if part:
            continue
        if gone:
            return
        if late:
            raise OutOfTime("the tests ran into the time limit")
        time.sleep(LOOK_SECONDS)


def _is_gone(child: int) -> bool:
    """Whether the process has ended; it stays to be waited for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end_session(child: int) -> None:
    """End what is left of the tests' process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def _be_the_test_process(folder: Path, files: list[str], toolbox: str, session: Session, write: int) -> None:
    """Run pytest and leave; never returns into the worker's code."""
    code = 70
    try:
        os.setsid()
        be_nice(LATE)
        gc.freeze()  # pytest collects garbage several times, and would go through all of verifiers
        sys.path.append(toolbox)
        os.chdir(folder)
        bring_back(toolbox)
        import pytest

        from .authors_plugin import AuthorsPlugin
        from .stopwatch import Stopwatch

        grader = Grader(lambda: forked(session))
        plugins = [Reporter(write, session.sources), Stopwatch(), AuthorsPlugin.over(grader)]
        code = int(pytest.main([*_options(folder), *files], plugins=plugins))
        grader.close()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _options(folder: Path) -> list[str]:
    options = ["-q", "--continue-on-collection-errors", "-p", "no:cacheprovider"]
    options += ["--import-mode=importlib", "-o", "addopts="]
    return [*options, f"--rootdir={folder}", f"--confcutdir={folder}"]


def import_tests(toolbox: str) -> None:
    """Import all that pytest imports until it has found no tests, and what the tests get from here."""
    sys.path.append(toolbox)
    import pytest

    from . import authors_plugin  # noqa: F401

    if {plugin.name for plugin in entry_points(group="pytest11")} <= HARMLESS_PLUGINS:
        pytest.main([*_options(WITHOUT_TESTS), "-c", os.devnull, str(WITHOUT_TESTS)])


class Reporter:
    """A pytest plugin that writes one JSON line per finished test."""

    def __init__(self, write: int, sources: Sources) -> None:
        self._write = write
        self._sources = sources

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            outcome = "error" if report.failed and report.when != "call" else report.outcome
            self._say(report.nodeid, outcome, report)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._say(report.nodeid, "error", report)

    def _say(self, test: str, outcome: str, report: Any) -> None:
        crash = getattr(report.longrepr, "reprcrash", None)
        location = getattr(report, "location", None)
        message = "" if outcome == "passed" else str(getattr(crash, "message", None) or report.longrepr or "")
        place = None
        if crash is not None:
            place = self._sources.place(crash.path, crash.lineno)
        if place is None and location is not None:
            place = {"file": location[0], "line": None if location[1] is None else location[1] + 1}
        line = {"test": test, "outcome": outcome, "message": shortened(message, 1500), "place": place}
        os.write(self._write, json.dumps(line).encode() + b"\n")
