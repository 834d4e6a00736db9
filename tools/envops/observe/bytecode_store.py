"""Bytecode that outlives a checkout: what one virtual environment of this user compiled, the next one links.

A file's bytecode is kept under what tells the file from all others of its disk: inode, time and length.
uv makes virtual environments of hard links into its cache, so the same files come back in every
checkout and under every lock. Where uv has to copy, none do, and all is compiled anew. Python still
holds bytecode against the time and length of its source.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from envops.observe.venv import VirtualEnvironment
from envops.observe.worker.bytecode import write_whole
from envops.observe.worker.known_modules import FILE
from envops.observe.workspace import Workspace

VARIABLE = "ENVOPS_CACHE_DIR"
ENDING = f".{sys.implementation.cache_tag}.pyc"


class BytecodeStore:
    """A folder of bytecode that virtual environments on the same disk take from and add to, any number at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = folder / str(sys.implementation.cache_tag)

    def take(self, venv: VirtualEnvironment, generation: str) -> bool:
        """Link what importing a generation of verifiers needs; whether all of that is there now.

        For a lock that nobody has imported yet, it is whatever is there for any of its files. Raises
        `OSError` where nothing can be written.
        """
        try:
            text = self._list_of(venv, generation).read_bytes()
            sources = list(_sources_named(venv, json.loads(text)))
        except (OSError, ValueError, LookupError, TypeError):
            self.take_all(venv)
            return False
        if not all([self._take(source) for source in sources]):  # noqa: C419 (all of them are taken)
            return False
        write_whole(str(_list_in(venv, generation)), text)
        return True

    def take_all(self, venv: VirtualEnvironment) -> None:
        """Link what is there for any file. Raises `OSError` where nothing can be written."""
        if self._files.is_dir():
            for source in _sources(venv.site_packages):
                self._take(source)

    def keep(self, venv: VirtualEnvironment, generation: str) -> None:
        """Add what importing a generation of verifiers needed. Raises `OSError` where that cannot be done."""
        with suppress(ValueError, LookupError, TypeError, FileNotFoundError):  # nobody has written it down
            text = _list_in(venv, generation).read_bytes()
            self._keep(_sources_named(venv, json.loads(text)))
            write_whole(str(self._list_of(venv, generation)), text)

    def keep_all(self, venv: VirtualEnvironment) -> None:
        """Add whatever is compiled. Raises `OSError` where that cannot be done."""
        self._keep(_sources(venv.site_packages))

    def _take(self, source: str) -> bool:
        """Whether a file has its bytecode, or gets it. Raises `OSError` where the folder cannot be written."""
        bytecode = _bytecode_of(source)
        try:
            place = self._place_of(source)
            try:
                os.link(place, bytecode)
            except FileNotFoundError:  # not kept, or the first of its folder
                if not os.path.exists(place):  # noqa: PTH110
                    return False
                os.makedirs(os.path.dirname(bytecode), exist_ok=True)  # noqa: PTH103, PTH120
                os.link(place, bytecode)
        except FileExistsError:
            return True
        except FileNotFoundError:
            return False
        return True

    def _keep(self, sources: Iterable[str]) -> None:
        for source in sources:
            with suppress(FileExistsError):
                try:
                    self._link(source)
                except FileNotFoundError:  # no bytecode, or the first of its folder
                    if os.path.exists(_bytecode_of(source)):  # noqa: PTH110
                        Path(self._place_of(source)).parent.mkdir(parents=True, exist_ok=True)
                        self._link(source)

    def _link(self, source: str) -> None:
        os.link(_bytecode_of(source), self._place_of(source))

    def _list_of(self, venv: VirtualEnvironment, generation: str) -> Path:
        return self._files / "imports" / f"{venv.folder.name}-{generation}.json"

    def _place_of(self, source: str) -> str:
        """Raises `FileNotFoundError` where there is no such source."""
        status = os.stat(source)  # noqa: PTH116
        name = f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}.pyc"
        return f"{self._files}/{status.st_ino % 256:02x}/{name}"


def bytecode_store(workspace: Workspace) -> BytecodeStore:
    """The user's, or the checkout's own where that lies on another disk or cannot be made: links do not lead there."""
    chosen = users_folder() / "bytecode"
    with suppress(OSError):
        chosen.mkdir(parents=True, exist_ok=True)
        workspace.base.mkdir(parents=True, exist_ok=True)
        if chosen.stat().st_dev == workspace.base.stat().st_dev and os.access(chosen, os.W_OK):
            return BytecodeStore(chosen)
    return BytecodeStore(workspace.base / "bytecode")


def users_folder() -> Path:
    """What all checkouts of a user share: `ENVOPS_CACHE_DIR`, or `envops` where programs keep such things."""
    if told := os.environ.get(VARIABLE):
        return Path(told).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~"), ".cache")) / "envops"  # noqa: PTH111, PTH117


def _sources_named(venv: VirtualEnvironment, known: dict[str, list[str]]) -> Iterator[str]:
    """The files of the modules that an import needed, as `worker/known_modules.py` writes them down."""
    site = venv.site_packages
    for ending, names in ((".py", known["modules"]), ("/__init__.py", known["packages"])):
        for name in names:
            if not all(map(str.isidentifier, name.split("."))):
                raise ValueError(f"{name} is no module")
            yield f"{site}/{name.replace('.', '/')}{ending}"


def _list_in(venv: VirtualEnvironment, generation: str) -> Path:
    return venv.folder / FILE.format(generation=generation)


def _sources(folder: Path) -> Iterator[str]:
    waiting = [str(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    yield entry.path
                elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                    waiting.append(entry.path)


def _bytecode_of(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/__pycache__/{name.removesuffix('.py')}{ENDING}"
