"""Bytecode of the virtual environments of a run, made beside it, and once for all that hold the same file."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from envops.observe.capacity import usable_cores
from envops.observe.starting import BOOTSTRAP_OF_COMPILERS, WORKER_FOLDER
from envops.observe.subprocesses import Interrupted, ProgramFailed, run_program
from envops.observe.venv import VirtualEnvironment, is_compiled, mark_compiled, siblings_of, uv_environment

SECONDS = 1_800.0
LAST = 19
"""How nice it is to compile what nobody waits for."""
IMPORTED = {"v0": ("verifiers.legacy.envs.environment", "verifiers.legacy", "verifiers"), "v1": ("verifiers.v1",)}
"""What is imported first, by generation of verifiers; before 0.3 there was one place for it."""


class Compilers:
    """What compiles during one run, one virtual environment at a time; use as a context manager.

    What is not compiled when the run ends is left to the next run's.
    """

    def __init__(self) -> None:
        self._over = threading.Event()
        self._begun: set[Path] = set()
        self._imported, self._rest = ThreadPoolExecutor(1), ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._imported.shutdown(cancel_futures=True)
        self._rest.shutdown(cancel_futures=True)

    def begin(self, venv: VirtualEnvironment, generation: str) -> None:
        """Compile what that generation of verifiers imports, and then the rest when nobody else has work."""
        if venv.folder not in self._begun and not is_compiled(venv.folder):
            self._begun.add(venv.folder)
            self._imported.submit(self._compile_what_is_imported, venv, generation)

    def _compile_what_is_imported(self, venv: VirtualEnvironment, generation: str) -> None:
        with suppress(ProgramFailed, Interrupted, OSError):  # then it is done by the next run
            link_bytecode(venv, siblings_of(venv))
            _run(venv, venv.site_packages, self._over, {"modules": IMPORTED[generation], "beside": usable_cores() - 1})
            self._rest.submit(self._compile_the_rest, venv)

    def _compile_the_rest(self, venv: VirtualEnvironment) -> None:
        with suppress(ProgramFailed, Interrupted, OSError):
            link_bytecode(venv, siblings_of(venv))
            _run(venv, venv.site_packages, self._over, {"all": True, "nice": LAST})
            mark_compiled(venv.folder)


def compile_all(venv: VirtualEnvironment, folder: Path, stop: threading.Event) -> None:
    """Compile everything in a folder by the interpreter of a virtual environment.

    Raises `ProgramFailed` where that cannot be kept, and `Interrupted` when `stop` is set.
    """
    _run(venv, folder, stop, {"all": True})


def _run(venv: VirtualEnvironment, folder: Path, stop: threading.Event, asked: Mapping[str, object]) -> None:
    run_program(
        [venv.python, "-I", "-S", "-W", "ignore", "-c", BOOTSTRAP_OF_COMPILERS, WORKER_FOLDER],
        environment=uv_environment(),
        folder=folder,
        seconds=SECONDS,
        stop=stop,
        sends=json.dumps({"folder": str(folder), "modules": [], "beside": 0, "all": False, "nice": 0, **asked}),
    )


def link_bytecode(venv: VirtualEnvironment, others: Iterable[VirtualEnvironment]) -> None:
    """Take the bytecode of files that another virtual environment of the same interpreter has, too.

    A file is the same where both are hard links of it, in uv's cache: then its bytecode is as well. Raises
    `OSError` where nothing can be written.
    """
    wanted = {entry.inode(): entry.path for entry in _sources(venv.site_packages)}
    for other in others:
        if other.site_packages.stat().st_dev != venv.site_packages.stat().st_dev:
            continue
        for entry in _sources(other.site_packages):
            if entry.inode() in wanted:
                target = Path(_bytecode_of(wanted[entry.inode()]))
                with suppress(FileNotFoundError, FileExistsError):
                    if not target.exists() and Path(_bytecode_of(entry.path)).exists():
                        target.parent.mkdir(exist_ok=True)
                        target.hardlink_to(_bytecode_of(entry.path))


def _sources(folder: Path) -> Iterator[os.DirEntry[str]]:
    waiting = [str(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    yield entry
                elif entry.is_dir(follow_symlinks=False) and entry.name != "__pycache__":
                    waiting.append(entry.path)


def _bytecode_of(path: str) -> str:
    folder, name = os.path.split(path)
    return f"{folder}/__pycache__/{name.removesuffix('.py')}.{sys.implementation.cache_tag}.pyc"
