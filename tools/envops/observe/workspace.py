"""Where the tool keeps what it can make again: `.envops/` at the root of the repository."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envops.observe.subprocesses import Interrupted

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


def made_once(
    target: Path, make: Callable[[Path], None], is_sound: Callable[[Path], bool], stop: threading.Event
) -> Path:
    """The folder `target`, made by `make` where it is missing or not sound.

    Safe with several processes: one makes it, aside and renamed into place when complete,
    and the others wait. An interrupted make leaves nothing behind that is taken for whole.
    Raises `Interrupted` when `stop` is set while another one makes it.
    """
    if is_sound(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _held(target.with_name(target.name + ".lock"), stop):
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


@contextmanager
def _held(path: Path, stop: threading.Event) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    while True:
        try:
            lock.acquire(timeout=0.2)
            break
        except Timeout:
            if stop.is_set():
                raise Interrupted from None
    try:
        yield
    finally:
        lock.release()


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
