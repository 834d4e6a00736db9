"""How a worker's process comes to be: started, or forked from one that has imported verifiers."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

WORKER_FOLDER = Path(__file__).parent / "worker"
PACKAGE = """
import importlib.util as u, sys
s = u.spec_from_file_location("envops_worker", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
sys.modules["envops_worker"] = m = u.module_from_spec(s)
s.loader.exec_module(m)
del sys.argv[1:]
from envops_worker.warden import begin
"""
BOOTSTRAP = PACKAGE + "begin()\nfrom envops_worker.main import serve\nserve()\n"
BOOTSTRAP_OF_FORKS = (
    PACKAGE + "begin(leaves_others=True)\nfrom envops_worker.fork_server import serve_forks\nserve_forks()\n"
)
AHEAD = "ENVOPS_GENERATION"
"""The variable that names the generation of verifiers to import before anything is asked."""
SIGN_OF_LIFE_SECONDS = 20.0
"""How long a fork may take to say its number: the machine may be busy, and the server large."""


class NotForked(Exception):
    """No worker was forked; the message says why. A fresh process will do."""


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


class ForkedProcess:
    """The part of `subprocess.Popen` that a worker's host needs, for a process that is not its child."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO, stderr: BinaryIO, report: int) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None
        self._report = report
        self._said = b""
        self.pid = self._number()

    def _number(self) -> int:
        """The process's number, which is the first thing that it says.

        Raises `NotForked` when it does not come to that.
        """
        deadline = time.monotonic() + SIGN_OF_LIFE_SECONDS
        while b"\n" not in self._said:
            if not self._hear(deadline - time.monotonic()):
                os.close(self._report)
                raise NotForked("the fork server gave no sign of a worker")
        return int(self._said.split(b"\n")[0])

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal; -9 where the process's own warden was killed.

        Raises `subprocess.TimeoutExpired` when it is not over in time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            rest = None if deadline is None else deadline - time.monotonic()
            if rest is not None and rest < 0:
                raise subprocess.TimeoutExpired("worker", timeout or 0.0)
            if not self._hear(rest) and (rest is None or time.monotonic() < (deadline or 0.0)):
                lines = self._said.split()
                self.returncode = int(lines[1]) if len(lines) > 1 else -9
                os.close(self._report)
        return self.returncode

    def _hear(self, seconds: float | None) -> bool:
        """Read on; whether anything was said."""
        ready, _, _ = select.select([self._report], [], [], None if seconds is None else max(0.0, seconds))
        part = os.read(self._report, 256) if ready else b""
        self._said += part
        return bool(part)
