"""Standard output and error whose commands are in the form that the user types."""

from __future__ import annotations

import io
import sys
from typing import TextIO

from envwright.text.commands import as_typed


class TypedStream(io.TextIOWrapper):
    """A stream that writes to the file of another one, with commands as the user types them."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        stream.flush()
        super().__init__(
            stream.buffer,
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        self.stream = stream

    def write(self, text: str, /) -> int:
        super().write(as_typed(text))
        return len(text)


def type_commands() -> None:
    """Write the commands in everything that this process prints as the user types them."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = TypedStream(sys.stdout)
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = TypedStream(sys.stderr)


def unchanged(stream: TextIO) -> TextIO:
    """The original stream, for text whose quotations must stay as they are."""
    if not isinstance(stream, TypedStream):
        return stream
    stream.flush()
    return stream.stream
