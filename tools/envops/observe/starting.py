"""How a process inside a virtual environment comes to be: started anew, or forked from a template."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from envops.observe.worker.crash_status import new_crash_status

WORKER_FOLDER = Path(__file__).parent / "worker"
PACKAGE = """
import importlib.util as u, sys
s = u.spec_from_file_location("envops_worker", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
sys.modules["envops_worker"] = m = u.module_from_spec(s)
s.loader.exec_module(m)
del sys.argv[1:]
from envops_worker.supervisor import begin
"""
BEGIN = "begin()\nfrom envops_worker.main import main\nmain()\n"
BEGIN_LEAVING_OTHERS = "begin(leaves_others=True)\nfrom envops_worker.main import main\nmain()\n"
START = "ENVOPS_START"
SIGN_OF_LIFE_SECONDS = 20.0
"""How long a fork may take to report its id: the machine may be busy, and its template large."""


class NotForked(Exception):
    """No process was forked; the message says why."""


def with_lifeline(
    command: Sequence[str | Path],
    folder: Path,
    environment: Mapping[str, str],
    *,
    streams: int = subprocess.PIPE,
    passed: Sequence[int] = (),
) -> tuple[subprocess.Popen[bytes], int]:
    """A process in a session of its own that ends when the descriptor which comes with it is closed."""
    lifeline, ours = os.pipe()
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, "ENVOPS_LIFELINE": str(lifeline)},
            stdin=streams,
            stdout=streams,
            stderr=streams,
            pass_fds=(lifeline, *passed),
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(lifeline)
    return process, ours


def start(
    python: Path,
    folder: Path,
    environment: Mapping[str, str],
    role: Mapping[str, Any],
    *,
    streams: int = subprocess.DEVNULL,
    passed: Sequence[int] = (),
) -> tuple[subprocess.Popen[bytes], int]:
    """A new process in a role that `worker/main.py` knows, under a supervisor, and its lifeline."""
    begin = BEGIN_LEAVING_OTHERS if role["role"] == "template" else BEGIN
    command: list[str | Path] = [python, "-s", "-P", "-c", PACKAGE + begin, WORKER_FOLDER]
    return with_lifeline(command, folder, {**environment, START: json.dumps(role)}, streams=streams, passed=passed)


@dataclass
class Connection:
    """A process that answers requests, and what the host holds of it."""

    process: subprocess.Popen[bytes] | ForkedProcess
    stdin: BinaryIO
    stdout: BinaryIO
    stderr: BinaryIO
    lifeline: int
    """The process ends when this is closed."""
    status: int
    """Its crash status."""

    def close(self) -> None:
        """Close everything; twice does no harm."""
        for stream in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                stream.close()
        self.cut()
        if self.status >= 0:
            os.close(self.status)
            self.status = -1

    def cut(self) -> None:
        """Let the process be ended."""
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1


def new_worker(python: Path, folder: Path, environment: Mapping[str, str]) -> Connection:
    """A new process that loads an environment by itself."""
    status = new_crash_status()
    try:
        role = {"role": "worker", "status": status}
        process, lifeline = start(python, folder, environment, role, streams=subprocess.PIPE, passed=[status])
    except BaseException:
        os.close(status)
        raise
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    return Connection(process, process.stdin, process.stdout, process.stderr, lifeline, status)  # type: ignore[arg-type]


def forked_worker(template: socket.socket, control: socket.socket | None = None) -> Connection:
    """A fork of a template that answers requests; with a `control`, it can become a template itself.

    Raises `NotForked` where none comes.
    """
    pipes = [os.pipe() for _ in range(5)]
    (stdin, requests), (answers, stdout), (errors, stderr), (lifeline, held), (report, told) = pipes
    status = new_crash_status()
    theirs = {
        "stdin": stdin,
        "stdout": stdout,
        "stderr": stderr,
        "lifeline": lifeline,
        "report": told,
        "status": status,
    }
    theirs |= {"control": control.fileno()} if control is not None else {}
    streams: list[Any] = [os.fdopen(one, mode, 0) for one, mode in ((requests, "wb"), (answers, "rb"), (errors, "rb"))]
    connection: Connection | None = None
    try:
        send_request(template, {}, theirs)
        for descriptor in (stdin, stdout, stderr, lifeline, told):
            os.close(descriptor)
        process = ForkedProcess(report)
        connection = Connection(process, streams[0], streams[1], streams[2], held, status)
        process.wait_for_id()
    except (OSError, NotForked) as error:
        if connection is None:
            for descriptor in (stdin, stdout, stderr, lifeline, told, report, held, status):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            for stream in streams:
                stream.close()
        else:
            connection.close()
        raise NotForked(f"the template is gone: {error}") from None
    return connection


def send_request(template: socket.socket, settings: Mapping[str, Any], descriptors: Mapping[str, int]) -> None:
    """Ask a template for a fork. Raises `OSError` where it is gone."""
    content = json.dumps({**settings, "descriptors": list(descriptors)}).encode()
    socket.send_fds(template, [content], list(descriptors.values()))


class ForkedProcess:
    """The part of `subprocess.Popen` that a host needs, for a process whose parent is a template."""

    def __init__(self, report: int) -> None:
        """Read id and exit code from this descriptor."""
        self.pid = 0
        self.returncode: int | None = None
        self._report = report
        self._heard = b""

    def wait_for_id(self) -> None:
        """Return when the process has an id. Raises `NotForked` when it does not come to that."""
        deadline = time.monotonic() + SIGN_OF_LIFE_SECONDS
        while b"\n" not in self._heard:
            if not self._listen(deadline - time.monotonic()):
                os.close(self._report)
                self.returncode = -9
                raise NotForked("it reports no process")
        self.pid = int(self._heard.split(b"\n")[0])

    def poll(self) -> int | None:
        """The exit code, or `None` while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal; -9 where its template was killed.

        Raises `subprocess.TimeoutExpired` when it is not over in time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            rest = None if deadline is None else max(0.0, deadline - time.monotonic())
            if self._listen(rest):
                continue
            if not self._over and rest is not None:
                raise subprocess.TimeoutExpired("job", timeout or 0.0)
            lines = self._heard.split()
            self.returncode = int(lines[1]) if len(lines) > 1 else -9
            os.close(self._report)
        return self.returncode

    _over = False
    """Whether nothing more will be reported."""

    def _listen(self, seconds: float | None) -> bool:
        """Read on; whether anything was reported."""
        ready, _, _ = select.select([self._report], [], [], seconds)
        part = os.read(self._report, 256) if ready else b""
        self._over = bool(ready) and not part
        self._heard += part
        return bool(part)
