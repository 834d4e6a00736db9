"""A fork of the worker from before anything was scored: what a fresh process would say.

Importing verifiers anew takes seconds. A fork right after loading has everything imported and
nothing remembered: no counter moved, no cache filled, no default argument changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from .failures import OutOfTime
from .pools import end_pools
from .warden import die_with_parent


class SpareLost(RuntimeError):
    """The fork gave no answer."""


class Spare:
    """The fork; asked once."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        asks, self._asks = os.pipe()
        self._answers, answers = os.pipe()
        parent = os.getpid()
        self._process = os.fork()
        if self._process == 0:
            _serve(work, asks, answers, (self._asks, self._answers), parent)
        os.close(asks)
        os.close(answers)

    def ask(self, question: Any, seconds: float) -> Any:
        """What the fork answers.

        Raises `OutOfTime` when it does not answer in time and `SpareLost` when it ended.
        """
        deadline = time.monotonic() + seconds
        heard = b""
        try:
            with os.fdopen(self._asks, "wb") as asks:
                asks.write(json.dumps(question, default=str).encode() + b"\n")  # later forks hold this end open too
            while time.monotonic() < deadline:
                ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
                part = os.read(self._answers, 1 << 20) if ready else b""
                if ready and not part:
                    return json.loads(heard)
                heard += part
        except (OSError, ValueError) as error:
            raise SpareLost(f"a fresh process did not answer: {error}") from error
        finally:
            self.end()
        raise OutOfTime(f"a fresh process did not answer within {seconds:g} s")

    def end(self) -> None:
        """End the fork, whether it was asked or not."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)


def _serve(work: Callable[[Any], Any], asks: int, answers: int, theirs: tuple[int, ...], parent: int) -> None:
    """Wait for the question, answer it, and leave."""
    try:
        die_with_parent(parent)
        for descriptor in theirs:
            os.close(descriptor)
        with os.fdopen(asks, "rb") as questions:
            question = json.loads(questions.readline() or b"null")
        if question is not None:
            with os.fdopen(answers, "wb") as stream:
                stream.write(json.dumps(work(question)).encode())
    finally:
        end_pools()
        os._exit(0)
