"""Locks between processes: on a file that is made for it, or on a folder. The kernel frees them when a process ends."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from envwright.system.subprocesses import Interrupted

POLL_SECONDS = 0.2


class AlreadyLocked(Exception):
    """Another process holds the lock."""


@contextmanager
def locked(
    path: Path,
    *,
    is_folder: bool = False,
    shared: bool = False,
    wait: bool = True,
    stop: threading.Event | None = None,
) -> Iterator[None]:
    """Hold a lock while the block runs: alone, or `shared` with others who do not need to be alone.

    A lock file is made where it is missing, a folder is not.

    Raises `AlreadyLocked` if another process holds it and `wait` is false, `Interrupted` when
    `stop` is set while it is waited for, and `OSError`.
    """
    flags = os.O_DIRECTORY if is_folder else os.O_CREAT
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags, 0o666)
    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        while True:
            try:
                fcntl.flock(descriptor, kind if wait and stop is None else kind | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stop is None:
                    raise AlreadyLocked(path) from None
            if stop.wait(POLL_SECONDS):
                raise Interrupted
        yield
    finally:
        os.close(descriptor)


@contextmanager
def alone(
    path: Path,
    *,
    is_folder: bool = False,
    stop: threading.Event | None = None,
    waits: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Hold a lock while the block runs, where locks are possible; `waits` is called if another process holds it.

    Raises `Interrupted` when `stop` is set while it is waited for.
    """
    with ExitStack() as stack:
        with suppress(OSError):  # a read-only folder, or a file system without locks
            try:
                stack.enter_context(locked(path, is_folder=is_folder, wait=False))
            except AlreadyLocked:
                waits()
                stack.enter_context(locked(path, is_folder=is_folder, stop=stop))
        yield
