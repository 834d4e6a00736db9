"""What is at the path of a file that would be written: no file is written through a symbolic link."""

from __future__ import annotations

import stat
from pathlib import Path, PurePosixPath

LARGEST = 5_000_000
"""Bytes of a file; a larger one is not compared."""


class Occupied(Exception):
    """Something other than a file is at a path, or in the place of one of its folders."""


def content_at(root: Path, name: str) -> bytes | None:
    """The content of a file below the root; `None` if nothing is there.

    Raises `Occupied` for a link, a folder, a device, a file that is too large or cannot be read, and for a link or a
    file in the place of a folder.
    """
    for parent in reversed(PurePosixPath(name).parents[:-1]):
        mode = _mode(root / parent)
        if mode is None:
            return None
        if not stat.S_ISDIR(mode):
            raise Occupied(f"{parent} is {'a symbolic link' if stat.S_ISLNK(mode) else 'not a folder'}")
    path = root / name
    mode = _mode(path)
    if mode is None:
        return None
    if not stat.S_ISREG(mode):
        raise Occupied(f"{name} is {'a symbolic link' if stat.S_ISLNK(mode) else 'not a file'}")
    try:
        if path.stat().st_size > LARGEST:
            raise Occupied(f"{name} is larger than {LARGEST:,} bytes")
        return path.read_bytes()
    except OSError as error:
        raise Occupied(f"{name} cannot be read: {error.strerror or error}") from None


def _mode(path: Path) -> int | None:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Occupied(f"{path.name} cannot be read: {error.strerror or error}") from None
