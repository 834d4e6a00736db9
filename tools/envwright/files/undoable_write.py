"""Writes that are undone together if a later step fails."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from envwright.files.atomic_write import write_whole


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
