"""JSON lines between the worker and its host.

Results are sent over a private copy of standard output. The real standard output is redirected to standard error first,
so output of an environment is never taken for a result.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

JobRequest = dict[str, Any]


class Channel:
    """Receives requests one at a time, and sends any number of answers to each."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers
        self._current: int | None = None
        self._lock = threading.Lock()

    @classmethod
    def over_standard_streams(cls) -> Channel:
        """Reserve standard input and output for the channel."""
        requests = os.fdopen(os.dup(0), "rb")
        answers = os.fdopen(os.dup(1), "wb", buffering=0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 - lives as long as the process
        return cls(requests, answers)

    def close(self) -> None:
        """Close the channel, in a fork that gets its own."""
        self._requests.close()
        self._answers.close()

    def requests(self) -> Iterator[JobRequest]:
        """Requests until the host closes its end."""
        for line in self._requests:
            request = json.loads(line)
            self._current = request["id"]
            yield request

    def item(self, kind: str, value: Any) -> None:
        """One part of the answer to the current request."""
        self._send({"event": "item", "kind": kind, "value": value})

    def be_about(self, value: Any) -> None:
        """Send the next action; the host reports it if this process ends during it."""
        self._send({"event": "about", "value": value})

    def done(self) -> None:
        """Report the end of the answer to the current request."""
        self._send({"event": "done"})

    def failed(self, failure: dict[str, Any]) -> None:
        """Report the failure of the current request."""
        self._send({"event": "failed", "failure": failure})

    def _send(self, message: dict[str, Any]) -> None:
        message["id"] = self._current
        view = memoryview(encoded(message) + b"\n")
        with self._lock:
            while view:
                view = view[self._answers.write(view) :]


def encoded(message: Mapping[str, Any]) -> bytes:
    """A message as Python's JSON, which has NaN and infinities: lone surrogates replaced, all keys text."""
    try:
        text = _encoder.encode(message)
    except TypeError:  # a key that is not valid in JSON
        text = _encoder.encode(with_text_keys(message))
    return text.encode("utf-8", "replace")


def with_text_keys(value: Any) -> Any:
    """The value with every key of every mapping as text."""
    if isinstance(value, Mapping):
        return {str(key): with_text_keys(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [with_text_keys(item) for item in value]
    return value


def plain(value: Any) -> Any:
    """A value that JSON cannot represent, as the nearest one that it can."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", exclude_none=True)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    return str(value)


_encoder = json.JSONEncoder(separators=(",", ":"), default=plain, ensure_ascii=False)
