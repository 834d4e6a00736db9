"""Many environments' folders read, in several processes where that saves time."""

from __future__ import annotations

import gc
import os
from functools import partial
from typing import TYPE_CHECKING

from envops.repository.read_package import Reading, read_package

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

WORTH_PROCESSES = 64
"""Fewer folders are read before another process has begun."""
PARTS = 4
"""For each process; what a part has in common travels once."""


def read_packages(folders: Sequence[Path], root: Path, *, with_locks: bool) -> list[Reading]:
    """Every folder, read by `read_package`, in the same order."""
    read = partial(read_package, root=root, with_lock=with_locks)
    processes = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if len(folders) < WORTH_PROCESSES or processes < 2:
        return [read(folder) for folder in folders]
    import multiprocessing

    size = -(-len(folders) // (processes * PARTS))
    parts = [folders[start : start + size] for start in range(0, len(folders), size)]
    # They live for seconds, and collecting what syntax trees leave behind would take a fifth of them.
    with multiprocessing.get_context("fork").Pool(processes, gc.disable) as pool:
        return [reading for part in pool.imap(partial(_read_part, read), parts) for reading in part]


def _read_part(read: partial[Reading], folders: Sequence[Path]) -> list[Reading]:
    return [read(folder) for folder in folders]
