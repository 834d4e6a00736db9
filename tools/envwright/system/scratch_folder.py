"""Temporary folders that a killed run does not leave for ever: the next run that makes one removes them."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from envwright.system.file_lock import AlreadyLocked, locked

TEMPORARY = "envwright-run-"
JUST_MADE_SECONDS = 60.0
"""A folder younger than this may be about to be locked by the run that made it."""


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def temporary_scratch(what: str) -> Iterator[Path]:
    """A scratch folder where the system keeps temporary files; one sweep finds all of these, whatever they are for."""
    base = Path(tempfile.gettempdir())
    _sweep(base, TEMPORARY, _remove)
    with _held(f"{TEMPORARY}{what}-", base, _remove) as folder:
        yield folder


@contextmanager
def scratch_folder(prefix: str, base: Path, remove: Callable[[Path], None] = _remove) -> Iterator[Path]:
    """A folder in `base` that is removed afterwards; those of the same prefix that killed runs left are removed first.

    It is locked while it is used, and the kernel ends the lock of a killed process.
    """
    _sweep(base, prefix, remove)
    with _held(prefix, base, remove) as folder:
        yield folder


@contextmanager
def _held(prefix: str, base: Path, remove: Callable[[Path], None]) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
    with locked(folder, is_folder=True):
        try:
            yield folder
        finally:
            remove(folder)


def _sweep(base: Path, prefix: str, remove: Callable[[Path], None]) -> None:
    for folder in base.glob(f"{prefix}*"):
        with suppress(OSError, AlreadyLocked):
            about = folder.lstat()
            if about.st_uid != os.getuid() or folder.is_symlink():
                continue
            with locked(folder, is_folder=True, wait=False):
                if time.time() - about.st_mtime > JUST_MADE_SECONDS:
                    remove(folder)
