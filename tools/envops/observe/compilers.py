"""Bytecode of the virtual environments of a run, made beside it."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from envops.observe.bytecode_store import bytecode_store
from envops.observe.capacity import usable_cores
from envops.observe.compiling import compile_some
from envops.observe.fork_server import ForkServer
from envops.observe.subprocesses import Interrupted, ProgramFailed
from envops.observe.venv import VirtualEnvironment, is_compiled, mark_compiled
from envops.observe.workspace import Workspace

IMPORTED = {"v0": ("verifiers.legacy.envs.environment", "verifiers.legacy", "verifiers"), "v1": ("verifiers.v1",)}
"""What is imported first, by generation of verifiers; before 0.3 there was one place for it."""
PATIENCE_SECONDS = 30.0
"""So long after its beginning does a run put the rest off while environments wait for their turn. A process that only
takes what is left over still takes a quarter of its time from others, who then share a core: of a short run, 2 %
(measured)."""


class Compilers:
    """What compiles during one run, one virtual environment at a time; use as a context manager.

    What is not compiled when the run ends is left to the next run's.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._store = workspace, bytecode_store(workspace)
        self._over = threading.Event()
        self._patient_until = time.monotonic() + PATIENCE_SECONDS
        self.calm = threading.Event()
        """To be set when nobody waits for a turn any more; it is when the run ends."""
        self._begun: set[Path] = set()
        self._imported, self._rest = ThreadPoolExecutor(1), ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self.calm.set()
        self._imported.shutdown(cancel_futures=True)
        self._rest.shutdown(cancel_futures=True)

    def take(self, venv: VirtualEnvironment, generation: str) -> None:
        """Take what was compiled elsewhere of what that generation of verifiers imports."""
        with suppress(OSError):  # then it is compiled here
            if not is_compiled(venv.folder, generation) and self._store.take(venv, generation):
                mark_compiled(venv.folder, generation)

    def imported(self, venv: VirtualEnvironment, generation: str) -> None:
        """All that this generation imports has been compiled by a server: let others have it."""
        with suppress(OSError):
            if not self._store.knows(venv, generation):
                self._store.keep(venv, generation)
            if not is_compiled(venv.folder, generation):
                mark_compiled(venv.folder, generation)

    def begin(self, venv: VirtualEnvironment, generation: str, *, served: bool) -> Future[None] | None:
        """Compile what that generation of verifiers imports, and then the rest when nobody else has work.

        With `served` a fork server keeps what it imports; otherwise one that nobody asks for anything does.
        Returns what is done when the former is; nothing where there is nothing to do.
        """
        if venv.folder in self._begun or is_compiled(venv.folder):
            return None
        self._begun.add(venv.folder)
        return self._imported.submit(self._compile_what_is_imported, venv, generation, served)

    def finish(self, venv: VirtualEnvironment) -> None:
        """Compile the rest of one whose beginning is compiled, when nobody else has work, and in the end anyway."""
        self._rest.submit(self._compile_the_rest, venv)

    def _compile_what_is_imported(self, venv: VirtualEnvironment, generation: str, served: bool) -> None:
        with suppress(ProgramFailed, Interrupted, OSError):  # then it is done by the next run
            if not is_compiled(venv.folder, generation):
                first = {"modules": IMPORTED[generation], "beside": usable_cores() - 1, "store": self._store.files}
                compile_some(venv, venv.site_packages, self._over, first)
                if not served and sys.platform == "linux":
                    self._import(venv, generation)
            self.finish(venv)

    def _import(self, venv: VirtualEnvironment, generation: str) -> None:
        """Keep what the import needs beyond what its files say at the beginning of a line."""
        with self._workspace.scratch() as scratch, ForkServer(venv, generation, 0, scratch) as server:
            imported = not server.refusal(self._over)
        if imported:
            self.imported(venv, generation)

    def _compile_the_rest(self, venv: VirtualEnvironment) -> None:
        with suppress(ProgramFailed, Interrupted, OSError):
            self.calm.wait(max(0.0, self._patient_until - time.monotonic()))
            if self._over.is_set():
                return
            asked = {"all": True, "idle": True, "store": self._store.files}
            compile_some(venv, venv.site_packages, self._over, asked)
            mark_compiled(venv.folder)
