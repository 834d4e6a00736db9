"""Packages as an earlier run read them, in `.envwright/packages/` under a digest of all inputs.

Hashing the files of 1,000 environments takes 0.4 s, parsing them 5 s. Every file is hashed each time: size and time
alone would miss an edit within the clock's resolution. Only folders of plain files without any problem are kept. So a
link is followed each time, and every problem is reported with its place.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import packaging
import yaml
from packaging.markers import default_environment

from envwright.declarations.package import Package
from envwright.facts.observed import adapter
from envwright.files.atomic_write import write_whole
from envwright.packages.content import hub_content_hash, list_content, strict_digest
from envwright.packages.read_package import PackageReading, read_package
from envwright.system.capacity import usable_cores
from envwright.system.signature import signed, verified
from envwright.system.workspace import OWN_CODE, Workspace, code_digest, mark_used

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envwright.declarations.package import Lock

SIGNED_AS = "package"
MANY = 64
"""The least number of folders for other processes and the cache; fewer are read faster directly."""
PARTS = 4
"""Folders per part; common data of a part is sent once."""


@dataclass(frozen=True)
class _Kept:
    key: str
    package: Package


@dataclass(frozen=True)
class RememberedPackages:
    """The packages of one repository that were read before.

    Entries that are damaged, foreign or not signed by this user are read again.
    """

    root: Path
    reader: str
    """Digest of the code that reads them."""

    @classmethod
    def of(cls, root: Path) -> RememberedPackages:
        """The remembered packages of the repository at `root`, for this version of the tool on this machine."""
        markers = sorted(default_environment().items())  # the markers of a lock's entries depend on it
        versions = [sys.version, packaging.__version__, yaml.__version__]
        reader = json.dumps([code_digest(*OWN_CODE), versions, markers])
        return cls(root, hashlib.sha256(reader.encode()).hexdigest())

    def digest_of(self, folder: Path) -> str | None:
        """The digest under which a folder is remembered; `None` if the digest does not cover all inputs."""
        content = list_content(folder, self.root)
        return strict_digest(folder, content.files) if content.ordinary else None

    def read(self, folder: Path) -> Package | None:
        """The package in a folder; `None` if it must be read."""
        try:
            path = self._path(folder)
            raw = path.read_bytes()  # before the files are hashed: in a first run there is none
            kept: _Kept = adapter(_Kept).validate_json(verified(raw, SIGNED_AS), strict=False)
            digest = self.digest_of(folder)
            if digest is None or kept.key != self._key(folder, digest):
                return None
            hub_hash = hub_content_hash(folder)  # of recordings, too, which the digest leaves out
        except (OSError, ValueError):
            return None
        mark_used(path)
        return replace(kept.package, folder=folder, hub_hash=hub_hash)

    def keep(self, package: Package) -> None:
        """Remember a package that was read without any problem. If that fails, it is read again the next time."""
        bare = replace(package, folder=Path(), hub_hash="")  # both are determined again each time
        kept = _Kept(self._key(package.folder, package.digest), bare)
        with suppress(OSError, ValueError):
            text = adapter(_Kept).dump_json(kept)
            # TOML and YAML have values that JSON lacks, such as dates. Packages that would not be restored exactly are
            # not kept.
            if repr(adapter(_Kept).validate_json(text, strict=False)) == repr(kept):
                path = self._path(package.folder)
                write_whole(path, signed(text, SIGNED_AS))

    def _path(self, folder: Path) -> Path:
        return Workspace(self.root).packages / f"{folder.name}.json"

    def _key(self, folder: Path, digest: str) -> str:
        return hashlib.sha256(json.dumps([self.reader, folder.name, digest]).encode()).hexdigest()


def read_packages(folders: Sequence[Path], root: Path, *, with_locks: bool) -> list[PackageReading]:
    """Every folder, read by `read_package`, in the same order. Of many folders, only changed ones are parsed again."""
    if len(folders) < MANY:
        return [read_package(folder, root, with_lock=with_locks) for folder in folders]
    if not with_locks:
        return _read_side_by_side(partial(read_package, root=root, with_lock=False), folders)

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
    before = None
    with suppress(OSError):  # reading reports or raises it
        before = remembered.digest_of(folder)
    reading = read_package(folder, root)
    package = reading.package
    # A file that changed while it was read would be cached with its old content under its new digest.
    if package and not reading.problems and package.digest == before:
        remembered.keep(package)
    return reading


def _read_side_by_side(read: partial[PackageReading], folders: Sequence[Path]) -> list[PackageReading]:
    """Every folder in the same order, in several processes if that saves time."""
    processes = usable_cores() if sys.platform == "linux" else 1  # a fork is not safe everywhere
    if len(folders) < MANY or processes < 2:
        return [read(folder) for folder in folders]
    import multiprocessing

    size = -(-len(folders) // (processes * PARTS))
    # The processes live for seconds, and garbage collection of syntax trees would take a fifth of that.
    with multiprocessing.get_context("fork").Pool(processes, gc.disable) as pool:
        readings = pool.map(read, folders, size)
        # Leaving the block sends SIGTERM and waits. Where that has a handler, a process that has just been forked loses
        # the signal and never ends: in a loop of such pools within 15 s, and in 900 of these never.
        pool.close()
        pool.join()
    return readings
