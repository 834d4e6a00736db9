"""Atomic writes, and writes that are undone together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from secrets import token_hex
from stat import S_IMODE


def write_whole(path: Path, content: str | bytes | Iterable[str]) -> None:
    """Write a file, text as UTF-8, atomically, so that an interruption never leaves a partial file.

    The content is written to a temporary file in the same folder, which is then renamed. A file that is
    replaced keeps its permissions, and a new one gets those of the user's umask; a missing folder is created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = S_IMODE(path.stat().st_mode) if path.exists() else None
    unfinished = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        with open(unfinished, "xb", opener=lambda name, flags: os.open(name, flags, mode or 0o666)) as file:
            for part in [content] if isinstance(content, str | bytes) else content:
                file.write(part if isinstance(part, bytes) else part.encode())
        if mode is not None:
            unfinished.chmod(mode)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_together(root: Path, contents: Mapping[str, bytes]) -> None:
    """Write files below a root, or none of them if a step fails."""
    with ExitStack() as undo:
        for path, content in contents.items():
            write_undoable(root / path, content, undo)
        undo.pop_all()


def write_undoable(file: Path, content: bytes, undo: ExitStack) -> None:
    """Write a file; closing `undo` restores the old content and removes the folders that were created."""
    before = file.read_bytes() if file.is_file() else None
    if before == content:
        return
    for folder in reversed([parent for parent in file.parents if not parent.exists()]):
        undo.callback(_remove_empty, folder)
        folder.mkdir()
    undo.callback(_restore, file, before)
    write_whole(file, content)


def remove_undoable(file: Path, undo: ExitStack) -> None:
    """Remove a file; closing `undo` restores it."""
    undo.callback(_restore, file, file.read_bytes())
    file.unlink()


def _restore(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink(missing_ok=True)
    else:
        write_whole(file, content)


def _remove_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
