"""Temporary folders that a killed run does not leave for ever: the next run that makes one removes them."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from envwright.system.file_lock import AlreadyLocked, locked

TEMPORARY = "envwright-run-"
JUST_MADE_SECONDS = 60.0
"""A folder younger than this may be about to be locked by the run that made it."""


def remove_folder(folder: Path) -> None:
    """Remove a folder, including unwritable contents; files that cannot be removed stay, and links as well."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for *_, descriptor in os.fwalk(folder):
            with suppress(OSError):
                os.fchmod(descriptor, 0o700)
        shutil.rmtree(folder, ignore_errors=True)


def temporary_scratch(what: str) -> AbstractContextManager[Path]:
    """A scratch folder where the system keeps temporary files; one sweep finds all of these, whatever they are for."""
    return scratch_folder(TEMPORARY, Path(tempfile.gettempdir()), suffix=f"-{what}")


@contextmanager
def scratch_folder(
    prefix: str, base: Path, remove: Callable[[Path], None] = remove_folder, suffix: str = ""
) -> Iterator[Path]:
    """A folder in `base` that is removed afterwards; those of the same prefix that killed runs left are removed first.

    It is locked while it is used, and the kernel ends the lock of a killed process.
    """
    for left in base.glob(f"{prefix}*"):
        with suppress(OSError, AlreadyLocked):
            about = left.lstat()
            if about.st_uid != os.getuid() or left.is_symlink():
                continue
            with locked(left, is_folder=True, wait=False):
                if time.time() - about.st_mtime > JUST_MADE_SECONDS:
                    remove(left)
    folder = Path(tempfile.mkdtemp(suffix, prefix, base))
    with locked(folder, is_folder=True):
        try:
            yield folder
        finally:
            remove(folder)
