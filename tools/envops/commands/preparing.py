"""What environments need before their turn, made while the first of them are still importing verifiers."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

from envops.commands.judging import Question
from envops.declare.lock import LOCK_FILE
from envops.observe.building import WheelBuilder
from envops.observe.capacity import usable_cores
from envops.observe.compilers import Compilers
from envops.observe.fork_server import BegunServer, ForkServers
from envops.observe.observation import confinement_of
from envops.observe.subprocesses import Interrupted, ProgramFailed
from envops.observe.toolboxes import make_toolboxes
from envops.observe.venv import VirtualEnvironment, venv_for
from envops.observe.wheel import builder_of_wheels, built_wheel

LULL_SECONDS = 0.1
"""Between two looks whether the run was cancelled, where all but the first wheels wait for a lull."""
WHEELS_NICE = 5
"""What imports goes first: all wait for it, and for a wheel one environment alone."""
BUILDERS = 2
"""Virtual environments that are made at a time: that waits for the disk and the network."""


class Preparation:
    """Virtual environments, servers that import, toolboxes and wheels of one run; use as a context manager.

    What goes wrong here goes wrong again, and is told, when the environment's turn has come.
    """

    def __init__(
        self,
        question: Question,
        venvs: Mapping[str, str],
        servers: ForkServers,
        stop: threading.Event,
        lull: threading.Event,
    ) -> None:
        """Begin with what the first environments need.

        `venvs` names everybody's virtual environment by its key. `lull` is set when a core has less to do: something
        is imported, and nobody compiles any more what that waits for.
        """
        self._question, self._servers, self._stop, self._lull = question, servers, stop, lull
        self._keys = venvs
        self._packages = question.repository.packages
        self._open = ExitStack()
        self._open.callback(self._end_builder)  # when nobody asks it any more
        self._compilers = self._open.enter_context(Compilers(question.workspace))
        self._importers = self._open.enter_context(ThreadPoolExecutor(max(1, usable_cores() // 2)))
        builders = self._open.enter_context(ThreadPoolExecutor(BUILDERS))
        wheels = self._open.enter_context(ThreadPoolExecutor(1))
        self._builder: WheelBuilder | None = None
        """Of wheels, from when the first is to be made."""
        self._venvs: dict[str, Future[None]] = {key: Future() for key in dict.fromkeys(venvs.values())}
        for key in self._venvs:
            builders.submit(self._make_venv, key)
        shared = self._shared = [name for name, key in venvs.items() if servers.shares(key)]
        self._wheels = {name: wheels.submit(self._make_wheel, name) for name in shared}
        builders.submit(self._make_toolboxes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def ready(self, names: Collection[str]) -> set[str]:
        """Those of them whose turn may come: nothing that they need is being made."""
        return {name for name in names if all(one.done() for one in self._needed(name))}

    def nobody_waits(self) -> None:
        """Everybody's turn has come: what was put off may be done."""
        self._compilers.calm.set()

    def awaited(self) -> list[Future[None]]:
        """What is still being made that environments wait for."""
        return [one for one in (*self._venvs.values(), *self._wheels.values()) if not one.done()]

    def _needed(self, name: str) -> Iterator[Future[None]]:
        yield self._venvs[self._keys[name]]
        if name in self._wheels and self._wheels[name].running():  # one that hangs holds up nobody else
            yield self._wheels[name]

    def _make_venv(self, key: str) -> None:
        """The virtual environment of all with this key, which then is ready, or has its servers begun."""
        first = self._packages[next(self._sharing(key))]
        generation = first.generation or "v1"
        begins_servers = False
        try:
            with suppress(ProgramFailed, Interrupted, OSError):
                venv = venv_for(first.folder / LOCK_FILE, self._question.workspace, self._stop, compiled=False)
                if self._servers.shares(key):
                    self._importers.submit(self._begin_servers, key, venv, generation)
                    begins_servers = True
                else:
                    self._compilers.take(venv, generation)
                    self._compilers.begin(venv, generation, served=False)
        finally:
            if not begins_servers:
                self._venvs[key].set_result(None)
                if self._servers.shares(key):
                    self._lull.set()

    def _begin_servers(self, key: str, venv: VirtualEnvironment, generation: str) -> None:
        """Let import what all with this key are forked from, with the bytecode that others have by now."""
        begun: list[BegunServer | None] = []
        compiling: Future[None] | None = None
        entries = self._question.repository.registry.environments
        with suppress(ProgramFailed, Interrupted, OSError):
            try:
                self._compilers.take(venv, generation)
                for name in self._sharing(key):
                    confinement = confinement_of(entries[name], self._question.wish)
                    begun.append(self._servers.begin(venv, self._packages[name], confinement))
                compiling = self._compilers.begin(venv, generation, served=any(begun))
                if compiling is not None:
                    compiling.add_done_callback(lambda _: self._lull.set())
            finally:
                self._venvs[key].set_result(None)
                if compiling is None:
                    self._lull.set()
            origins = [server.origin(self._stop) for server in begun if server]  # the next ones find bytecode then
            if any(one.server for one in origins):
                self._compilers.imported(venv, generation)

    def _sharing(self, key: str) -> Iterator[str]:
        return (name for name, its in self._keys.items() if its == key)

    def _make_wheel(self, name: str) -> None:
        workspace = self._question.workspace
        if name not in self._shared[: usable_cores()]:
            while not self._lull.wait(LULL_SECONDS) and not self._stop.is_set():
                pass
        with suppress(ProgramFailed, Interrupted, OSError):
            if not self._stop.is_set():
                if self._builder is None or not self._builder.is_there:
                    self._end_builder()
                    self._builder = builder_of_wheels(workspace, self._stop, nice=WHEELS_NICE)
                built_wheel(self._packages[name], workspace, self._stop, self._builder)
        if name == self._shared[-1]:
            self._end_builder()

    def _end_builder(self) -> None:
        if self._builder is not None:
            self._builder.end()

    def _make_toolboxes(self) -> None:
        with suppress(ProgramFailed, Interrupted, OSError):
            packages = [self._packages[name] for name in self._keys]
            for unfinished in make_toolboxes(packages, self._question.workspace, self._question.wish, self._stop):
                self._compilers.finish(unfinished)
