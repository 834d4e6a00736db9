"""What a worker is about and what it has not sent yet, where its host can read it after the worker's end.

Telling the host of every reply before it is scored wakes the host for each of them, which took a fortieth of
a processor's time; memory that both see costs nothing until somebody looks.
"""

from __future__ import annotations

import mmap
import os
import struct

VARIABLE = "ENVOPS_SLATE"
"""Names the file, which the host has made as long as `SIZE`."""
LENGTHS = struct.Struct("<II")
"""Of what the worker is about, and of the lines that wait to be sent."""
ABOUT_BYTES = 1 << 16
WAITING_BYTES = 1 << 15
SIZE = LENGTHS.size + ABOUT_BYTES + WAITING_BYTES


class Slate:
    """The worker's side; nothing is ever taken from it."""

    def __init__(self, path: str) -> None:
        """Write to this file from now on, which nobody else finds any more. Raises `OSError`."""
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


def read_slate(file: int) -> tuple[bytes, bytes]:
    """What a worker is or was about, and the lines that it had not sent; whatever it may have written there."""
    content = os.pread(file, SIZE, 0)
    if len(content) < SIZE:
        return b"", b""
    about, waiting = LENGTHS.unpack_from(content)
    begin = LENGTHS.size + ABOUT_BYTES
    return content[LENGTHS.size : begin][:about], content[begin:][:waiting]
