"""What a worker is about and what it has not sent yet, where its host can read it when the worker is lost.

Telling the host of every reply before it is scored wakes the host for each of them, which took a fortieth of
a processor's time; memory that both see costs nothing until somebody looks.
"""

from __future__ import annotations

import mmap
import os
import struct
from errno import ENOSPC
from pathlib import Path

VARIABLE = "ENVOPS_SLATE"
"""Names the file, which the host has made."""
LENGTHS = struct.Struct("<II")
"""Of what the worker is about, and of the lines that wait to be sent."""
ABOUT_BYTES = 1 << 16
WAITING_BYTES = 1 << 15
SIZE = LENGTHS.size + ABOUT_BYTES + WAITING_BYTES


class Slate:
    """The worker's side; nothing is ever taken from it."""

    def __init__(self, path: str) -> None:
        """Write to this file from now on, which nobody else finds any more. Raises `OSError` or `ValueError`."""
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.unlink(path)  # noqa: PTH108
            self._memory = mmap.mmap(file, SIZE)
        finally:
            os.close(file)
        self._about = self._waiting = 0

    def be_about(self, text: bytes) -> None:
        """Replace what the worker is about; what is too long is told by its beginning."""
        self._about = min(len(text), ABOUT_BYTES)
        self._memory[LENGTHS.size : LENGTHS.size + self._about] = text[: self._about]
        self._tell()

    def wait(self, line: bytes) -> None:
        """Add a line that waits. Together they may take `WAITING_BYTES`."""
        begin = LENGTHS.size + ABOUT_BYTES + self._waiting
        self._memory[begin : begin + len(line)] = line
        self._waiting += len(line)
        self._tell()

    def nothing_waits(self) -> None:
        """All is being sent."""
        if self._waiting:
            self._waiting = 0
            self._tell()

    def _tell(self) -> None:
        LENGTHS.pack_into(self._memory, 0, self._about, self._waiting)


def new_slate(path: Path) -> int:
    """The host's side: a descriptor of an empty one, all of whose room is taken on the disk.

    What was not would be asked for when the worker first writes there, who would not survive a full disk.
    Raises `OSError`.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if os.write(file, bytes(SIZE)) < SIZE:
            raise OSError(ENOSPC, os.strerror(ENOSPC), str(path))
    except OSError:
        os.close(file)
        path.unlink(missing_ok=True)
        raise
    return file


def read_slate(file: int) -> tuple[bytes, bytes]:
    """What a worker is or was about, and the lines that it had not sent; whatever it may have written there."""
    content = os.pread(file, SIZE, 0)
    if len(content) < SIZE:
        return b"", b""
    about, waiting = LENGTHS.unpack_from(content)
    begin = LENGTHS.size + ABOUT_BYTES
    return content[LENGTHS.size : begin][:about], content[begin:][:waiting]
