"""What a worker is doing, in memory that its host can read after a crash."""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile

MOST_BYTES = 1 << 16
_LENGTH = struct.Struct("<I")


def new_crash_status() -> int:
    """A descriptor of an empty one."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("envops-status")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def write_crash_status(descriptor: int, text: bytes) -> None:
    """Replace it; what is too long is cut."""
    with contextlib.suppress(OSError):
        os.pwrite(descriptor, _LENGTH.pack(min(len(text), MOST_BYTES)) + text[:MOST_BYTES], 0)


def read_crash_status(descriptor: int) -> bytes:
    """What was written last; empty where nothing was."""
    content = os.pread(descriptor, _LENGTH.size + MOST_BYTES, 0)
    return content[_LENGTH.size :][: _LENGTH.unpack_from(content)[0]] if len(content) >= _LENGTH.size else b""
