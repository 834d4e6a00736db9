"""The processes below one, as the kernel lists them: reading about every process of a machine takes much longer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def memory_below(process: int) -> int:
    """Resident bytes of everybody whom a process started, and whom those started.

    Raises `OSError` where the kernel keeps no lists of children.
    """
    Path(f"/proc/self/task/{os.getpid()}/children").stat()
    held, waiting = 0, [process]
    while waiting:
        for child in _children(waiting.pop()):
            waiting.append(child)
            held += _resident(child)
    return held


def _children(process: int) -> Iterator[int]:
    """Those that any of its threads started; none where it has ended."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208
            with suppress(OSError), open(f"/proc/{process}/task/{thread}/children", "rb") as listed:  # noqa: PTH123
                yield from map(int, listed.read().split())


def _resident(process: int) -> int:
    with suppress(OSError, IndexError), open(f"/proc/{process}/statm", "rb") as pages:  # noqa: PTH123
        return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
