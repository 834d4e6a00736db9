"""Bytecode of the virtual environments of a run, made beside it and behind it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from envops.observe.capacity import usable_cores
from envops.observe.starting import BOOTSTRAP_OF_COMPILERS, WORKER_FOLDER
from envops.observe.subprocesses import Interrupted, ProgramFailed, run_program
from envops.observe.venv import VirtualEnvironment, is_compiled, mark_compiled, uv_environment

SECONDS = 1_800.0
LAST = 19
"""How nice it is to compile what nobody waits for."""
IMPORTED = {"v0": ("verifiers.legacy.envs.environment", "verifiers.legacy", "verifiers"), "v1": ("verifiers.v1",)}
"""What is imported first, by generation of verifiers; before 0.3 there was one place for it."""


class Compilers:
    """The processes of one run that compile; use as a context manager.

    What they have not reached when it ends is left to the next run's.
    """

    def __init__(self) -> None:
        self._over = threading.Event()
        self._threads: dict[str, threading.Thread] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads.values():
            thread.join()

    def begin(self, venv: VirtualEnvironment, generation: str) -> None:
        """Compile what that generation of verifiers imports at once, and the rest when nothing else has work."""
        if venv.folder.name not in self._threads and not is_compiled(venv.folder):
            thread = threading.Thread(target=self._compile, args=(venv, generation), daemon=True)
            self._threads[venv.folder.name] = thread
            thread.start()

    def _compile(self, venv: VirtualEnvironment, generation: str) -> None:
        first = {"modules": IMPORTED[generation], "beside": usable_cores() - 1, "nice": LAST}
        with suppress(ProgramFailed, Interrupted, OSError):  # then it is done by the next run
            _run(venv, venv.site_packages, self._over, first)
            mark_compiled(venv.folder)


def compile_all(venv: VirtualEnvironment, folder: Path, stop: threading.Event) -> None:
    """Compile everything in a folder by the interpreter of a virtual environment.

    Raises `ProgramFailed` where that cannot be kept, and `Interrupted` when `stop` is set.
    """
    _run(venv, folder, stop, {"modules": (), "beside": 0, "nice": 0})


def _run(venv: VirtualEnvironment, folder: Path, stop: threading.Event, asked: Mapping[str, object]) -> None:
    run_program(
        [venv.python, "-I", "-S", "-W", "ignore", "-c", BOOTSTRAP_OF_COMPILERS, WORKER_FOLDER],
        environment=uv_environment(),
        folder=folder,
        seconds=SECONDS,
        stop=stop,
        sends=json.dumps({"folder": str(folder), **asked}),
    )
