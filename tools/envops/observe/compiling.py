"""Bytecode, made by the interpreter of a virtual environment, and once for all that hold the same file."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from envops.observe.starting import BOOTSTRAP_OF_COMPILERS, WORKER_FOLDER
from envops.observe.subprocesses import run_program
from envops.observe.venv import VirtualEnvironment, uv_environment

SECONDS = 1_800.0


def compile_some(venv: VirtualEnvironment, folder: Path, stop: threading.Event, asked: Mapping[str, object]) -> None:
    """Compile in a folder what is asked for, by the interpreter of a virtual environment: what modules import, or all.

    Raises `ProgramFailed` where that cannot be kept, and `Interrupted` when `stop` is set.
    """
    run_program(
        [venv.python, "-I", "-S", "-W", "ignore", "-c", BOOTSTRAP_OF_COMPILERS, WORKER_FOLDER],
        environment=uv_environment(),
        folder=folder,
        seconds=SECONDS,
        stop=stop,
        sends=json.dumps({"folder": str(folder), "modules": [], "beside": 0, "all": False, "idle": False, **asked}),
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
