"""The prepared data of an environment: its folder, and its way into the home of processes.

A preparation is a home folder, because libraries download into HOME. The processes of an environment get a home of
their own with the same files, so their writes end with them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from envwright.builds.interpreter import interpreter_if_any
from envwright.builds.wheel import digests
from envwright.declarations.package import Package
from envwright.declarations.preparation import Preparation
from envwright.declarations.registry import EnvironmentEntry
from envwright.files.atomic_write import write_whole
from envwright.system.workspace import Workspace, mark_used
from envwright.text.plain_data import foreign_json

MISSING = "missing"
"""The mark of a declared and missing preparation in the key of facts."""
HOME = "home"
COMPLETE = "prepared.json"
HUB_CACHE = ".cache/huggingface/"


@dataclass(frozen=True)
class PreparedHome:
    home: Path
    content: str
    bytes: int


def preparation_key(preparation: Preparation, package: Package) -> str:
    """The name of a preparation: equal declarations and locks have one.

    The package's code is included if the command names its module, because only then it can be imported.
    """
    code = package.digest if names_module(preparation.command, package.module) else ""
    datasets = [[dataset.name, dataset.config, dataset.revision] for dataset in preparation.datasets]
    lock = package.lock.digest if package.lock else ""
    interpreter = interpreter_if_any(package.requires_python)
    python = interpreter.minor if interpreter else ""
    identity = json.dumps([datasets, preparation.command, lock, code, python])
    return hashlib.sha256(identity.encode()).hexdigest()[:20]


def names_module(command: str, module: str) -> bool:
    """Whether a command names a module of the package, or a part of it."""
    return re.search(rf"(?<![\w-]){re.escape(module)}(?![\w-])", command) is not None


def prepared_home(entry: EnvironmentEntry, package: Package) -> PreparedHome | None:
    """The prepared data of an environment; `None` if nothing is declared or it is missing."""
    if not entry.prepare.needed:
        return None
    return read_prepared(folder_of(entry.prepare, package))


def folder_of(preparation: Preparation, package: Package) -> Path:
    return Workspace(package.folder.parents[1]).prepared / preparation_key(preparation, package)


def read_prepared(folder: Path) -> PreparedHome | None:
    """The preparation in a folder; `None` if it is missing or damaged."""
    try:
        data = foreign_json((folder / COMPLETE).read_bytes())
        found = PreparedHome(folder / HOME, str(data["content"]), int(data["bytes"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None
    mark_used(folder)
    return found if found.home.is_dir() else None


def complete(folder: Path) -> None:
    """Complete a preparation's folder and make it read-only. Locks of libraries, which are empty, stay behind."""
    home, total = folder / HOME, 0
    for path in sorted(_files(home)):
        if path.suffix == ".lock" and not path.lstat().st_size:
            path.unlink()
        elif path.is_symlink():
            _point_from_here(path, home)
        else:
            status = path.stat()
            path.chmod(0o555 if status.st_mode & 0o100 else 0o444)
            total += status.st_size
    content = hashlib.sha256(json.dumps(digests(home)).encode()).hexdigest()
    write_whole(folder / COMPLETE, json.dumps({"content": content, "bytes": total}).encode())


def _point_from_here(link: Path, home: Path) -> None:
    """Make a link into the home relative, because the home gets another name."""
    target = link.readlink()
    if target.is_absolute() and target.is_relative_to(home.resolve()):
        link.unlink()
        link.symlink_to(os.path.relpath(target, link.parent.resolve()))


def _files(folder: Path) -> Iterator[Path]:
    """Every file and every link below a folder; sockets and pipes are left out."""
    for parent, folders, names in os.walk(folder):
        for name in (*names, *folders):
            path = Path(parent, name)
            if path.is_symlink() or path.is_file():
                yield path


def place_prepared(prepared: Path, home: Path, *, copies: bool = False) -> None:
    """Put the prepared data into a home. The data of the Hub's cache is linked, unless `copies`; all else is copied.

    Its libraries never write into that data, only beside it. A database would be written in place, and with a link
    that would change what was prepared.
    """
    for parent, folders, names in os.walk(prepared):
        below = os.path.relpath(parent, prepared)
        Path(home, below).mkdir(exist_ok=True)
        in_cache = f"{below}/".startswith(HUB_CACHE)
        for name in (*names, *folders):
            source, target = Path(parent, name), Path(home, below, name)
            if source.is_symlink():
                target.symlink_to(source.readlink())
            elif source.is_file():
                is_data = in_cache and (source.parent.name == "blobs" or source.suffix == ".arrow")
                if is_data and not copies:  # a hard link would be written where it is, in a home that can be written
                    target.symlink_to(source.absolute())
                else:
                    shutil.copyfile(source, target)
                    target.chmod(source.stat().st_mode | 0o200)


def without_command(preparation: Preparation) -> Preparation:
    """The part of a preparation that stays valid when only the command or its code changes."""
    return replace(preparation, command="")
