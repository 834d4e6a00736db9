"""How a process inside a virtual environment comes to be: started anew, or forked from a template."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envops_worker
from envops_worker.crash_status import new_crash_status

WORKER_FOLDER = Path(envops_worker.__file__).parent
PACKAGE = """
import importlib.util as u, sys
s = u.spec_from_file_location("envops_worker", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
sys.modules["envops_worker"] = m = u.module_from_spec(s)
s.loader.exec_module(m)
del sys.argv[1:]
"""
BEGIN = PACKAGE + "from envops_worker.supervisor import begin\nbegin()\nfrom envops_worker.main import main\nmain()\n"
START = "ENVOPS_START"
SIGN_OF_LIFE_SECONDS = 20.0
"""How long a fork may take to report its id: the machine may be busy, and its template large."""

Descriptors = Mapping[str, int]
"""What a process is given, by name."""


class NotForked(Exception):
    """No process was forked; the message says why."""


@dataclass(frozen=True)
class Connection:
    """A process that answers requests, and the host's ends of its pipes."""

    process: subprocess.Popen[bytes] | ForkedProcess
    requests: int
    answers: int
    errors: int
    status: int
    """Its crash status."""
    lifeline: ExitStack
    """The process ends when this is closed."""
    pipes: ExitStack


def new_process(
    python: Path, folder: Path, environment: Mapping[str, str], role: Mapping[str, Any], given: Descriptors
) -> subprocess.Popen[bytes]:
    """A new process in a role that `worker/main.py` knows, under a supervisor that watches the given lifeline.

    Standard streams that it is not given are /dev/null.
    """
    passed = {name: descriptor for name, descriptor in given.items() if name not in ("stdin", "stdout", "stderr")}
    return subprocess.Popen(
        [python, "-s", "-P", "-c", BEGIN, WORKER_FOLDER],
        cwd=folder,
        env={**environment, START: json.dumps({**role, **passed})},
        stdin=given.get("stdin", subprocess.DEVNULL),
        stdout=given.get("stdout", subprocess.DEVNULL),
        stderr=given.get("stderr", subprocess.DEVNULL),
        pass_fds=tuple(passed.values()),
        start_new_session=True,
    )


def connected(begin: Callable[[Descriptors], subprocess.Popen[bytes] | ForkedProcess]) -> Connection:
    """A process that `begin` makes with the descriptors which it is given. Raises whatever that raises."""
    with ExitStack() as theirs, ExitStack() as ours, ExitStack() as lifeline:
        stdin, requests = pipe(theirs, ours)
        answers, stdout = pipe(ours, theirs)
        errors, stderr = pipe(ours, theirs)
        watched, _ = pipe(theirs, lifeline)
        status = new_crash_status()
        ours.callback(os.close, status)
        given = {"stdin": stdin, "stdout": stdout, "stderr": stderr, "lifeline": watched, "status": status}
        process = begin(given)
        return Connection(process, requests, answers, errors, status, lifeline.pop_all(), ours.pop_all())


def pipe(readers: ExitStack, writers: ExitStack) -> tuple[int, int]:
    """A pipe whose ends, the reading one and the writing one, are closed with one stack each."""
    read, write = os.pipe()
    readers.callback(os.close, read)
    writers.callback(os.close, write)
    return read, write


def fork(template: socket.socket, settings: Mapping[str, Any], given: Descriptors) -> ForkedProcess:
    """A process that a template forks. Raises `NotForked` where none comes."""
    with ExitStack() as ours, ExitStack() as theirs:
        report, reported = pipe(ours, theirs)
        named = {**given, "report": reported}
        content = json.dumps({**settings, "descriptors": list(named)}).encode()
        try:
            socket.send_fds(template, [content], list(named.values()))
        except OSError as error:
            raise NotForked(f"its template is gone: {error}") from None
        theirs.close()
        process = ForkedProcess(report)
        ours.pop_all()
    return process


class ForkedProcess:
    """The part of `subprocess.Popen` that a host needs, for a process whose parent is a template."""

    def __init__(self, report: int) -> None:
        """Read id and exit code from this descriptor, and close it. Raises `NotForked` when no id comes."""
        self.returncode: int | None = None
        self._report = report
        self._heard = b""
        self._over = False
        deadline = time.monotonic() + SIGN_OF_LIFE_SECONDS
        while b"\n" not in self._heard:
            if not self._listen(deadline - time.monotonic()):
                raise NotForked("its template is gone or has no room for another process")
        self.pid = int(self._heard.split(b"\n")[0])

    def poll(self) -> int | None:
        """The exit code, or `None` while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal; -9 where its template was killed.

        Raises `subprocess.TimeoutExpired` when it is not over in time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            if self._listen(None if deadline is None else deadline - time.monotonic()):
                continue
            if not self._over:
                raise subprocess.TimeoutExpired("job", timeout or 0.0)
            lines = self._heard.split()
            self.returncode = int(lines[1]) if len(lines) > 1 else -9
            os.close(self._report)
        return self.returncode

    def _listen(self, seconds: float | None) -> bool:
        """Read on; whether anything was reported."""
        ready, _, _ = select.select([self._report], [], [], None if seconds is None else max(0.0, seconds))
        part = os.read(self._report, 256) if ready else b""
        self._over = bool(ready) and not part
        self._heard += part
        return bool(part)
