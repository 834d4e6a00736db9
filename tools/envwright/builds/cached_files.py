"""Digests of the files of a cached folder, signed, so that a damaged or planted one is made again."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from envwright.files.atomic_write import write_whole
from envwright.system.signature import signed, verified

DIGESTS = "digests.json"
_made_here: set[Path] = set()
"""Folders of this process, which count where the user has no key to sign digests with."""


def write_digests(folder: Path, name: str) -> None:
    """Keep the digests of all files of a complete folder that will be found under this name."""
    content = json.dumps(_digests(folder)).encode()
    try:
        content = signed(content, f"digests {name}")
    except OSError:
        _made_here.add(folder.with_name(name))
    write_whole(folder / DIGESTS, content)


def has_its_files(folder: Path) -> bool:
    """Whether a folder has exactly the files that `write_digests` found in it."""
    try:
        raw = (folder / DIGESTS).read_bytes()
        content = raw if folder in _made_here else verified(raw, f"digests {folder.name}")
        kept = json.loads(content)
        return bool(kept == _digests(folder))
    except (OSError, ValueError):
        return False


def _digests(folder: Path) -> dict[str, str]:
    return dict(sorted(_digests_of_files(folder)))


def _digests_of_files(folder: Path) -> Iterator[tuple[str, str]]:
    for parent, folders, names in os.walk(folder):
        for name in (*names, *folders):
            path = Path(parent, name)
            place = path.relative_to(folder).as_posix()
            kind = path.lstat().st_mode
            if stat.S_ISLNK(kind):
                yield place, f"link {path.readlink()}"
            elif stat.S_ISREG(kind) and place != DIGESTS:
                with path.open("rb") as file:
                    yield place, hashlib.file_digest(file, "sha256").hexdigest()
            elif not stat.S_ISDIR(kind) and not stat.S_ISREG(kind):
                yield place, "neither a file nor a folder"
