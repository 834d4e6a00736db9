"""Work done in a fork of the worker, so that whatever it breaks, it breaks there."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from .failures import OutOfTime
from .pools import end_pools

LATE = 4
"""How nice work is that others need not wait for: what takes longest gets its time first, the rest fills the gaps."""


class Apart:
    """Work on its way in a fork, beside whatever the worker does next."""

    def __init__(self, work: Callable[[], dict[str, Any]], *, nice: int = 0) -> None:
        self._read, write = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            os.close(self._read)
            _be_the_child(work, write, nice)
        os.close(write)

    def result(self, seconds: float) -> dict[str, Any]:
        """What the work answers with, at most so many seconds from now; ends its process.

        Raises `OutOfTime` when it does not end in time and `ChildProcessError` when its
        process dies.
        """
        try:
            said = _all_that_is_said(self._read, time.monotonic() + seconds)
        except OutOfTime:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child, signal.SIGKILL)  # with the forks that it made itself
            raise
        finally:
            os.close(self._read)
            _, status = os.waitpid(self._child, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            raise ChildProcessError(
                said.decode("utf-8", "replace")[-2_000:] or "the process of work beside the others died"
            )
        answer: dict[str, Any] = json.loads(said)
        return answer


def _all_that_is_said(read: int, deadline: float) -> bytes:
    said = b""
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise OutOfTime("work beside the others did not end in time")
        ready, _, _ = select.select([read], [], [], remaining)
        if ready:
            part = os.read(read, 1 << 16)
            if not part:
                return said
            said += part


def be_nice(how: int) -> None:
    """Let others go first, as a process and as the session that it has begun: Linux may divide its time by sessions."""
    os.nice(how)
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as file:  # noqa: PTH123
        file.write(str(how))


def _be_the_child(work: Callable[[], dict[str, Any]], write: int, nice: int) -> None:
    """Do the work and leave; never returns into the worker's code."""
    code = 70
    try:
        os.setsid()
        if nice:
            be_nice(nice)
        gc.freeze()  # what was there before the fork is neither collected nor copied
        text, code = json.dumps(work(), default=str), 0
    except BaseException:
        text = traceback.format_exc()
    try:
        rest = text.encode("utf-8", "surrogatepass")
        while rest:
            rest = rest[os.write(write, rest) :]
    finally:
        sys.stderr.flush()
        end_pools()
        os._exit(code)
