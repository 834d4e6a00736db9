"""Bytecode that outlives a checkout: what one virtual environment of this user compiled, the next one links.

It is kept under what its source says, and the time and length that Python holds it against. uv makes virtual
environments of hard links into its cache, so the same files, with the same times, come back in every checkout
and under every lock. Where uv has to copy they do not, and nothing is kept.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from envops.observe.venv import VirtualEnvironment
from envops.observe.worker.bytecode import bytecode_of, is_of, link, place_in, read, write_whole
from envops.observe.worker.known_modules import FILE
from envops.observe.workspace import Workspace

CACHE_DIR = "ENVOPS_CACHE_DIR"
BYTECODE = "bytecode"
NO_LIST = (OSError, ValueError, LookupError, TypeError, AttributeError)
"""What a list that is missing or none raises."""


class BytecodeStore:
    """A folder of bytecode that virtual environments on the same disk take from and add to, any number at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = str(folder / str(sys.implementation.cache_tag))
        """The folder of this interpreter's bytecode."""

    def take(self, venv: VirtualEnvironment, generation: str) -> bool:
        """Link what importing a generation of verifiers needs under this lock; whether all of that is there now.

        Raises `OSError` where nothing can be written.
        """
        try:
            text = self._list_of(venv, generation).read_bytes()
            sources = list(_sources_named(venv, json.loads(text)))
        except NO_LIST:
            return False
        if not sources or not all([self._take(source) for source in sources]):  # noqa: C419 (all of them are taken)
            return False
        write_whole(str(_list_in(venv, generation)), text)
        return True

    def knows(self, venv: VirtualEnvironment, generation: str) -> bool:
        """Whether somebody added what that import needs under this lock."""
        return self._list_of(venv, generation).exists()

    def keep(self, venv: VirtualEnvironment, generation: str) -> None:
        """Add what importing a generation of verifiers needed. Raises `OSError` where that cannot be done."""
        try:
            text = _list_in(venv, generation).read_bytes()
            sources = list(_sources_named(venv, json.loads(text)))
        except NO_LIST:  # nobody has written it down
            return
        for source in sources:
            place = self._place_of(source)
            if place is not None and is_of(source):
                link(bytecode_of(source), place)
        write_whole(str(self._list_of(venv, generation)), text)

    def _take(self, source: str) -> bool:
        bytecode = bytecode_of(source)
        if os.path.exists(bytecode):  # noqa: PTH110
            return True
        place = self._place_of(source)
        return place is not None and link(place, bytecode)

    def _place_of(self, source: str) -> str | None:
        try:
            return place_in(self.files, *read(source))
        except OSError:
            return None

    def _list_of(self, venv: VirtualEnvironment, generation: str) -> Path:
        return Path(self.files, "imports", f"{venv.folder.name}-{generation}.json")


def bytecode_store(workspace: Workspace) -> BytecodeStore:
    """The user's, or the checkout's own where links do not lead to that: another disk, or nothing can be written."""
    users, own = _places(workspace)
    with suppress(OSError):
        users.mkdir(parents=True, exist_ok=True)
        workspace.base.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=workspace.base) as file:
            name = users / Path(file.name).name
            name.hardlink_to(file.name)
            name.unlink()
        return BytecodeStore(users)
    return BytecodeStore(own)


def bytecode_stores(workspace: Workspace) -> list[BytecodeStore]:
    """Those that are there."""
    return [BytecodeStore(folder) for folder in _places(workspace) if folder.is_dir()]


def _places(workspace: Workspace) -> tuple[Path, Path]:
    own = workspace.base / BYTECODE
    users = users_folder()
    return own if users is None else users / BYTECODE, own


def users_folder() -> Path | None:
    """What all checkouts of a user share: `ENVOPS_CACHE_DIR`, or `envops` where programs keep such things.

    `None` where nobody knows the user's home.
    """
    if told := os.environ.get(CACHE_DIR):
        return Path(os.path.expanduser(told)).absolute()  # noqa: PTH111
    told = os.environ.get("XDG_CACHE_HOME", "")
    base = told if os.path.isabs(told) else os.path.expanduser("~/.cache")  # noqa: PTH111, PTH117
    return Path(base, "envops") if os.path.isabs(base) else None  # noqa: PTH117


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
