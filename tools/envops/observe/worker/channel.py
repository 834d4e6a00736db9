"""JSON lines between the worker and its host.

The answers travel over a private copy of standard output; the real standard output is
pointed at standard error first, so whatever an environment prints can never be taken for
an answer.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

from .slate import VARIABLE, WAITING_BYTES, Slate

Request = dict[str, Any]
WAITING_SECONDS = 0.1
"""Nothing waits when nothing has been sent for so long."""


class Channel:
    """One request at a time comes in; any number of answers to it go out."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO, slate: Slate | None = None) -> None:
        self._requests = requests
        self._answers = answers
        self._slate = slate
        self._current: int | None = None
        self._waiting = b""
        """What goes out with a later message."""
        self._sent = 0.0
        """When something went out last, by a clock that only runs forward."""
        self._lock = threading.Lock()

    @classmethod
    def over_standard_streams(cls) -> Channel:
        """Take standard input and output over, so that nothing else can use them."""
        requests = os.fdopen(os.dup(0), "rb")
        answers = os.fdopen(os.dup(1), "wb", buffering=0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 - lives as long as the process
        slate = None
        with suppress(OSError, ValueError, KeyError):  # then nothing waits, and nobody learns what it was about
            slate = Slate(os.environ.pop(VARIABLE))
        return cls(requests, answers, slate)

    def requests(self) -> Iterator[Request]:
        """Requests until the host closes its end."""
        for line in self._requests:
            request = json.loads(line)
            self._current = request["id"]
            yield request

    def item(self, kind: str, value: Any, *, waits: bool = False) -> None:
        """One part of the answer to the current request; one that `waits` may go out with a later message.

        The host finds what waits when this process is gone.
        """
        self._send({"event": "item", "kind": kind, "value": value}, waits=waits)

    def be_about(self, value: Any) -> None:
        """Leave word of what is done next, for the host to tell if this process does not come back from it."""
        if self._slate is not None:
            self._slate.be_about(encoded({"id": self._current, "value": value}))

    def done(self) -> None:
        """The current request is answered."""
        self._send({"event": "done"})

    def failed(self, failure: dict[str, Any]) -> None:
        """The current request came to an end early."""
        self._send({"event": "failed", "failure": failure})

    def _send(self, message: dict[str, Any], *, waits: bool = False) -> None:
        message["id"] = self._current
        line = encoded(message) + b"\n"
        with self._lock:
            if waits and self._may_wait(line):
                self._waiting += line
                return
            view, self._waiting = memoryview(self._waiting + line), b""
            if self._slate is not None:
                self._slate.nothing_waits()
            self._sent = time.monotonic()
            while view:
                view = view[self._answers.write(view) :]

    def _may_wait(self, line: bytes) -> bool:
        if self._slate is None or len(self._waiting) + len(line) > WAITING_BYTES:
            return False
        if time.monotonic() - self._sent > WAITING_SECONDS:
            return False
        self._slate.wait(line)
        return True


def encoded(message: Mapping[str, Any]) -> bytes:
    """A message as JSON that every reader takes: lone surrogates replaced, all keys text."""
    try:
        text = _encoder.encode(message)
    except TypeError:  # a key that JSON has no form for
        text = _encoder.encode(with_text_keys(message))
    return text.encode("utf-8", "replace")


def with_text_keys(value: Any) -> Any:
    """The same value with every key of every mapping as text."""
    if isinstance(value, Mapping):
        return {str(key): with_text_keys(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_text_keys(item) for item in value]
    return value


def plain(value: Any) -> Any:
    """Anything that JSON has no form for, as the nearest thing that it has one for."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", exclude_none=True)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, tuple):
        return list(value)
    return str(value)


_encoder = json.JSONEncoder(separators=(",", ":"), default=plain, ensure_ascii=False)
