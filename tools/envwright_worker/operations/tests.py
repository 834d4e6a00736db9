"""The author's own pytest tests, run in a job: verifiers is already imported."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

from envwright_worker.author_tests import pytest_configuration
from envwright_worker.author_tests.grader import Grader
from envwright_worker.author_tests.testing import add_folders_of, add_toolbox, choosing_options
from envwright_worker.channel import JobRequest
from envwright_worker.failures import shortened
from envwright_worker.session import Session

ENDED_BY_ITSELF = (0, 1, 5)
"""Exit codes of pytest: all passed, some failed, no tests."""


def answer(session: Session, request: JobRequest) -> None:
    """Run the tests in `files` below the package, with pytest from the toolbox, and send the outcome of each.

    Raises `RuntimeError` if pytest ends before all of them have run.
    """
    folder = session.settings.package
    options = add_toolbox(request["toolbox"])
    os.chdir(folder)
    import pytest

    from envwright_worker.author_tests.plugin import AuthorsPlugin, Stopwatch

    grader, reporter = Grader(lambda: session), Reporter(session)
    plugins = [reporter, Stopwatch(), AuthorsPlugin(grader)]
    options += ["-q", "--continue-on-collection-errors", "-p", "no:cacheprovider", "--import-mode=importlib"]
    options += ["-p", "no:hypothesispytest"]  # imports hypothesis, which takes a second; tests import it if they use it
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of plugins that the worker imports before, too
    options += ["-o", "addopts=", f"--rootdir={folder}", f"--confcutdir={folder}"]
    configuration = pytest_configuration(folder)
    options += [f"-c={configuration}", *choosing_options(configuration)]
    add_folders_of(folder / file for file in request["files"])
    with contextlib.redirect_stderr(io.StringIO()) as said:  # it names a conftest.py that cannot be imported
        code = int(pytest.main([*options, *request["files"]], plugins=plugins))
    if code not in ENDED_BY_ITSELF or reporter.waiting:
        raise _ended_early(code, reporter, said.getvalue())


def _ended_early(code: int, reporter: Reporter, said: str) -> RuntimeError:
    """Why pytest ended before all tests had run, at the place in the author's code that ended it."""
    reason = reporter.ended_by
    text = (f"{type(reason).__name__}: {reason}" if reason else said.strip()) or f"exit code {code}"
    unrun = f"; not run: {', '.join(sorted(reporter.waiting))}" if reporter.waiting else ""
    error = RuntimeError(shortened(f"pytest ended early: {text}{unrun}", 1500))
    error.__cause__ = reason if isinstance(reason, MemoryError) else None
    return error.with_traceback(reason.__traceback__ if reason else None)


class Reporter:
    """A pytest plugin that sends the outcome of each test when it is over."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.waiting: set[str] = set()
        """The tests that have not begun."""
        self.ended_by: BaseException | None = None
        """What ended pytest before its end, such as `pytest.exit` or an exit while a module is imported."""

    def pytest_collection_finish(self, session: Any) -> None:
        self.waiting.update(item.nodeid for item in session.items)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.waiting.discard(nodeid)

    def pytest_keyboard_interrupt(self, excinfo: Any) -> None:
        self.ended_by = excinfo.value

    pytest_internalerror = pytest_keyboard_interrupt

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
            place = self._session.sources.place(crash.path, crash.lineno)
        if place is None and location is not None:
            place = {"file": location[0], "line": None if location[1] is None else location[1] + 1}
        line = {"test": test, "outcome": outcome, "message": shortened(message, 1500), "place": place}
        self._session.channel.item("test", line)
