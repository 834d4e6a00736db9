"""Records the keys that the environment's code reads while it is loaded, and that are not set."""

from __future__ import annotations

import os
import sys
from typing import Any

from envwright_worker.failures import SECRET_NAME, Sources
from envwright_worker.guards import STANDARD_LIBRARY


def is_named_like_a_key(name: str) -> bool:
    """Whether a variable is probably a secret, by its name."""
    return SECRET_NAME.fullmatch(name) is not None


class UnsetKeys:
    """The keys that code of the package read and that were not set, each with the line that read it first."""

    def __init__(self, sources: Sources) -> None:
        """Watch this process from now on.

        Python has no audit event for a variable that is read, and a profile hook would slow down every import. So the
        dictionary behind `os.environ` is replaced by one that has `__missing__`.
        """
        self._sources = sources
        self._found: dict[str, dict[str, Any]] = {}
        variables = _Variables(self, os.environ._data)  # type: ignore[attr-defined]
        os.environ._data = os.environb._data = variables  # type: ignore[attr-defined]

    def take(self) -> list[dict[str, Any]]:
        """What was found since the last time, as `UnsetKey` of facts."""
        found = list(self._found.values())
        self._found.clear()
        return found

    def missed(self, name: str) -> None:
        """A variable is not set: record it if it is named like a key, and code of the package reads it."""
        if not is_named_like_a_key(name):
            return
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(STANDARD_LIBRARY):
            frame = frame.f_back
        place = self._sources.place(frame.f_code.co_filename, frame.f_lineno)
        if place is not None:
            self._found.setdefault(name, {"name": name, "place": place})


class _Variables(dict[bytes, bytes]):
    def __init__(self, keys: UnsetKeys, variables: dict[bytes, bytes]) -> None:
        super().__init__(variables)
        self._keys = keys

    def __missing__(self, name: bytes) -> bytes:
        self._keys.missed(os.fsdecode(name))
        raise KeyError(name)
