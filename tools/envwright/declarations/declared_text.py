"""Declared files as text: small, regular, inside the repository, UTF-8. Anything else is a problem."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path

from envwright.declarations.problem import DeclarationError, Problem

MAX_BYTES = 5_000_000
"""The most bytes of a file; larger ones are refused before they are read."""

_CONTROL = bytes([*range(9), 11, 12, *range(14, 32), 127])


def relative(path: Path, root: Path) -> str:
    """The path as problems and reports show it: from the repository's root, with slashes."""
    return os.path.relpath(path, root).replace(os.sep, "/")


def read_bytes(path: Path, root: Path, limit: int = MAX_BYTES) -> bytes:
    """Content of a regular file of at most `limit` bytes.

    Raises `DeclarationError` when there is no such file, or it is a folder, a device, too
    large, unreadable or a link that leaves the repository.
    """

    def refuse(message: str, **more: str) -> DeclarationError:
        return DeclarationError([Problem(relative(path, root), None, message, **more)])

    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            if not leads_inside(path, root):
                raise refuse("is a symbolic link that leaves the repository", fix="replace it with the file itself")
            found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            kind = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe, socket or device"
            raise refuse(f"is {kind}, not a file", fix="replace it with a file")
        if found.st_size > limit:
            raise refuse("is too large to be read", found=f"{found.st_size:,} bytes", allowed=f"{limit:,} bytes")
        with path.open("rb", buffering=0) as file:
            return file.read(found.st_size)  # the limit also holds for a file that grows while it is read
    except FileNotFoundError:
        raise refuse("does not exist") from None
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror or error}") from None


def read_text(path: Path, root: Path, limit: int = MAX_BYTES, *, is_prose: bool = False) -> str:
    """Text of a UTF-8 file without control characters, line ends as they are.

    Raises `DeclarationError` as `read_bytes` does, and for anything that is not such text. Prose may have control
    characters, which are left out as its readers do not see them, and bytes of another encoding, which become
    lone surrogates (PEP 383); but with a null byte it is no text.
    """
    content = read_bytes(path, root, limit).removeprefix(codecs.BOM_UTF8)
    if is_prose:
        content = content.translate(None, _CONTROL[1:])

    def refusal(start: int, message: str, fix: str) -> DeclarationError:
        line, found = content.count(b"\n", 0, start) + 1, f"byte 0x{content[start]:02x}"
        return DeclarationError([Problem(relative(path, root), line, message, found=found, fix=fix)])

    try:
        text = content.decode(errors="surrogateescape" if is_prose else "strict")
    except UnicodeDecodeError as error:
        raise refusal(error.start, "is not UTF-8 text", "save the file as UTF-8") from None
    # Deleting is many times faster than searching, and nearly every file has none.
    if len(content.translate(None, _CONTROL)) != len(content):
        start = next(offset for offset, byte in enumerate(content) if byte in _CONTROL)
        raise refusal(start, "contains a control character", "remove it")
    return text


def leads_inside(path: Path, folder: Path) -> bool:
    """Whether the path, every link followed, stays inside the folder; there need not be a file."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
