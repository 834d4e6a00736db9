"""Where the tool keeps what it can make again: `.envops/` at the root of the repository."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TOOL_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Workspace:
    """Folders below `.envops/`; everything in them may be deleted at any time between runs."""

    root: Path

    @property
    def base(self) -> Path:
        return self.root / ".envops"

    @property
    def venvs(self) -> Path:
        return self.base / "venvs"

    @property
    def wheels(self) -> Path:
        return self.base / "wheels"

    @property
    def facts(self) -> Path:
        return self.base / "facts"

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for one worker, gone afterwards."""
        self.base.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="scratch-", dir=self.base))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def made_once(target: Path, make: Callable[[Path], None], is_sound: Callable[[Path], bool]) -> Path:
    """The folder `target`, made by `make` where it is missing or not sound.

    Safe with several processes: one makes it, aside and renamed into place when complete,
    and the others wait. An interrupted make leaves nothing behind that is taken for whole.
    """
    if is_sound(target):
        return target
    from filelock import FileLock

    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(target.name + ".lock")):
        if is_sound(target):
            return target
        for leftover in target.parent.glob(f".{target.name}.*"):
            shutil.rmtree(leftover, ignore_errors=True)
        aside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            make(aside)
            if target.exists():
                shutil.rmtree(target)
            aside.rename(target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return target


@cache
def tool_digest() -> str:
    """Digest of the code that observes: facts made by another version of it are not reused."""
    digest = hashlib.sha256()
    for path in sorted(TOOL_FOLDER.rglob("*")):
        if path.suffix in (".py", ".lock"):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(TOOL_FOLDER)}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()
