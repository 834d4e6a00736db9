"""A folder as a store: fsspec's own, with whole files only.

`cat_file` reads the requested bytes only, and does not wait for a pipe.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from envwright.files.atomic_write import write_whole


class StoreFolder(LocalFileSystem):
    """A folder that many machines may write at once, perhaps on a network file system."""

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """The bytes of a regular file. Raises `OSError`."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return b""
            file.seek(start or 0)
            return file.read(-1 if end is None else end - (start or 0))

    def pipe_file(self, path: str, value: bytes, *_: Any, **__: Any) -> None:
        """Write a file in one step. Raises `OSError`."""
        write_whole(Path(path), value)
