"""Read many environments' folders: known ones from the cache, the rest in several processes."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from envwright.packages.read_package import PackageReading, read_package

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from envwright.declarations.package import Lock, Package
    from envwright.packages.remembered_packages import RememberedPackages

MANY = 64
"""The least number of folders for other processes and the cache; fewer are read faster directly."""
PARTS = 4
"""Folders per part; common data of a part is sent once."""


def read_packages(folders: Sequence[Path], root: Path, *, with_locks: bool) -> list[PackageReading]:
    """Every folder, read by `read_package`, in the same order. Of many folders, only changed ones are parsed again."""
    if len(folders) < MANY:
        return [read_package(folder, root, with_lock=with_locks) for folder in folders]
    if not with_locks:
        return _read_side_by_side(partial(read_package, root=root, with_lock=False), folders)
    from envwright.packages.remembered_packages import RememberedPackages

    remembered = RememberedPackages.of(root)
    known: dict[Path, Package] = {}
    locks: dict[str, Lock] = {}
    for folder in folders:
        if package := remembered.read(folder):
            lock = package.lock and locks.setdefault(package.lock.digest, package.lock)  # equal texts are kept once
            known[folder] = replace(package, lock=lock)
    unknown = [folder for folder in folders if folder not in known]
    read = iter(_read_side_by_side(partial(_read_and_keep, root=root, remembered=remembered), unknown))
    return [PackageReading(known[folder], ()) if folder in known else next(read) for folder in folders]


def _read_and_keep(folder: Path, root: Path, remembered: RememberedPackages) -> PackageReading:
    before = _digest_of(folder, remembered)
    reading = read_package(folder, root)
    package = reading.package
    # A file that changed while it was read would be cached with its old content under its new digest.
    if package and not reading.problems and package.digest == before:
        remembered.keep(package)
    return reading


def _digest_of(folder: Path, remembered: RememberedPackages) -> str | None:
    with suppress(OSError):  # reading reports or raises it
        return remembered.digest_of(folder)
    return None


def _read_side_by_side(read: partial[PackageReading], folders: Sequence[Path]) -> list[PackageReading]:
    """Every folder in the same order, in several processes if that saves time."""
    processes = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if len(folders) < MANY or processes < 2:
        return [read(folder) for folder in folders]
    import multiprocessing

    size = -(-len(folders) // (processes * PARTS))
    parts = [folders[start : start + size] for start in range(0, len(folders), size)]
    # The processes live for seconds, and garbage collection of syntax trees would take a fifth of that.
    with multiprocessing.get_context("fork").Pool(processes, gc.disable) as pool:
        return [reading for part in pool.imap(partial(_read_part, read), parts) for reading in part]


def _read_part(read: partial[PackageReading], folders: Sequence[Path]) -> list[PackageReading]:
    return [read(folder) for folder in folders]
