"""The host's side of fork servers: verifiers is imported once per lock and not once per environment."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from envops.declare.package import Package
from envops.observe.limits import LOAD_SECONDS
from envops.observe.process import Confinement, worker_environment
from envops.observe.searching import search_toolbox_of
from envops.observe.starting import AHEAD, BOOTSTRAP_OF_FORKS, WORKER_FOLDER, ForkedProcess, NotForked, with_lifeline
from envops.observe.subprocesses import Interrupted
from envops.observe.venv import VirtualEnvironment, venv_key
from envops.observe.wheel import TESTS_LOCK
from envops.observe.workspace import Workspace

MOST_SERVERS = 6
"""Each holds an import of verifiers in memory, some 200 MB."""
LOOK_SECONDS = 0.1
TOOLBOXES = "ENVOPS_TOOLBOXES"
Toolboxes = Mapping[str, list[str]]
"""What tests and searches bring along: the folders that are imported from, by who needs them."""
NO_TOOLBOXES: Toolboxes = {}
SITE_MODULES = {"sitecustomize.py", "usercustomize.py", "sitecustomize", "usercustomize"}


class ForkServer:
    """A process that imported verifiers and forks workers; use as a context manager."""

    def __init__(
        self,
        venv: VirtualEnvironment,
        generation: str,
        hash_seed: int,
        scratch: Path,
        toolboxes: Toolboxes = NO_TOOLBOXES,
    ) -> None:
        environment = worker_environment(venv, scratch, scratch, Confinement({}, hash_seed=hash_seed))
        del environment["PYTHONPATH"]
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings = {"ENVOPS_FORKS": str(theirs.fileno()), AHEAD: generation, TOOLBOXES: json.dumps(toolboxes)}
        command: list[str | Path] = [venv.python, "-s", "-P", "-c", BOOTSTRAP_OF_FORKS, WORKER_FOLDER]
        with theirs:
            self._process, self._lifeline = with_lifeline(
                command, scratch, environment | settings, streams=subprocess.DEVNULL, passed=[theirs.fileno()]
            )
        self._socket = ours
        self._asking = threading.Lock()
        self.modules: frozenset[str] = frozenset()
        """Names of the modules that it imported, without those inside of packages."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
        os.close(self._lifeline)
        self._process.wait()

    @property
    def pid(self) -> int:
        """Of its warden."""
        return self._process.pid

    def refusal(self, stop: threading.Event) -> str:
        """Why forks of it would not be sound, or nothing, once it has imported.

        Raises `Interrupted` when `stop` is set before.
        """
        deadline = time.monotonic() + LOAD_SECONDS
        while time.monotonic() < deadline:
            if stop.is_set():
                raise Interrupted
            if select.select([self._socket], [], [], LOOK_SECONDS)[0]:
                with suppress(OSError, ValueError):
                    said = json.loads(self._socket.recv(1 << 18))
                    self.modules = frozenset(said.get("modules", ()))
                    return str(said.get("unsafe", ""))
                return "the process that imports verifiers for all ended"
        return f"verifiers was not imported within {LOAD_SECONDS:g} s"

    def fork(self, environment: Mapping[str, str], folder: Path, overlay: Path) -> tuple[ForkedProcess, int]:
        """A worker's process and the descriptor that it dies with.

        Raises `NotForked` where none comes.
        """
        question = {"environment": dict(environment), "folder": str(folder), "overlay": str(overlay.resolve())}
        pipes = [os.pipe() for _ in range(6)]
        (asked, ask), (stdin, requests), (answers, stdout), (errors, stderr), (lifeline, held), (report, told) = pipes
        theirs, ours = (asked, stdin, stdout, stderr, lifeline, told), [ask, requests, answers, errors, held, report]
        streams: list[Any] = []
        try:
            with self._asking:
                socket.send_fds(self._socket, [b"f"], theirs)
            os.write(ask, json.dumps(question).encode())
            os.close(ours.pop(0))
            streams.extend(os.fdopen(ours.pop(0), mode, 0) for mode in ("wb", "rb", "rb"))
            return ForkedProcess(streams[0], streams[1], streams[2], ours.pop()), held
        except (OSError, NotForked) as error:
            for stream in streams:
                stream.close()
            for descriptor in ours:  # what is closed twice may be another thread's by then
                with suppress(OSError):
                    os.close(descriptor)
            raise NotForked(f"the fork server is gone: {error}") from None
        finally:
            for descriptor in theirs:
                os.close(descriptor)


@dataclass(frozen=True)
class Origin:
    """From what a worker is made: a server, or why there is none; neither where nothing is shared."""

    server: ForkServer | None = None
    reason: str = ""


class ForkServers:
    """The fork servers of one run, begun when they are first asked for; use as a context manager.

    `sharing` tells how many environments of the run have a virtual environment in common, by its
    key: a server for one alone would cost what it saves.
    """

    def __init__(self, workspace: Workspace, sharing: Mapping[str, int], stop: threading.Event) -> None:
        self._workspace = workspace
        self._sharing = sharing
        self._stop = stop
        self._servers: dict[tuple[str, str, int], BegunServer] = {}
        self._bookkeeping = threading.Lock()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def shares(self, key: str) -> bool:
        """Whether several environments of the run have the virtual environment with this key."""
        return self._sharing.get(key, 0) > 1

    def begin(self, venv: VirtualEnvironment, package: Package, confinement: Confinement) -> BegunServer | None:
        """The server that this environment's worker will be asked of, if any, which imports from now on."""
        if not self.shares(venv.folder.name) or _reason_against(package, confinement):
            return None
        return self._begun(venv, package.generation or "v1", confinement.hash_seed)

    def origin(self, venv: VirtualEnvironment, package: Package, overlay: Path, confinement: Confinement) -> Origin:
        """From what this environment's worker is to be made.

        Raises `Interrupted` when the run is cancelled while a server imports.
        """
        if not self.shares(venv.folder.name):
            return Origin()
        if reason := _reason_against(package, confinement) or reason_in_wheel(overlay):
            return Origin(reason=reason)
        origin = self._begun(venv, package.generation or "v1", confinement.hash_seed).origin(self._stop)
        hidden = origin.server.modules & modules_in(overlay) if origin.server else ()
        return Origin(reason=f"the wheel hides the module {min(hidden)} from verifiers") if hidden else origin

    def _begun(self, venv: VirtualEnvironment, generation: str, hash_seed: int) -> BegunServer:
        """A server on its way, which may have begun before; the first that ask for one get one."""
        key = (venv.folder.name, generation, hash_seed)
        with self._bookkeeping:
            if key not in self._servers:
                room = sum(one.is_of_use for one in self._servers.values()) < MOST_SERVERS
                self._servers[key] = BegunServer(self._start(venv, generation, hash_seed) if room else None)
            return self._servers[key]

    def _start(self, venv: VirtualEnvironment, generation: str, hash_seed: int) -> ForkServer:
        scratch = self._open.enter_context(self._workspace.scratch())
        arguments = (venv, generation, hash_seed, scratch, toolboxes_of(self._workspace))
        return self._open.enter_context(ForkServer(*arguments))


class BegunServer:
    """A server that may still be importing, or none for want of room."""

    def __init__(self, server: ForkServer | None) -> None:
        self._server = server
        self._asking = threading.Lock()
        self._origin = None if server else Origin(reason=f"{MOST_SERVERS} other locks have a fork server already")

    @property
    def is_of_use(self) -> bool:
        """Whether it forks, or may do so yet."""
        return self._origin is None or self._origin.server is not None

    def origin(self, stop: threading.Event) -> Origin:
        """What came of it. Raises `Interrupted` when `stop` is set before that is known."""
        with self._asking:
            if self._origin is None:
                assert self._server is not None
                refusal = self._server.refusal(stop)
                self._origin = Origin(None, refusal) if refusal else Origin(self._server)
            return self._origin


def toolboxes_of(workspace: Workspace) -> Toolboxes:
    """Where what tests and searches bring along is or will be: it is made while verifiers is imported."""
    search = search_toolbox_of(workspace)
    tests = VirtualEnvironment(workspace.venvs / venv_key(TESTS_LOCK))
    return {"tests": [str(tests.site_packages)], "search": [str(search.site_packages), str(search.unicode)]}


def _reason_against(package: Package, confinement: Confinement) -> str:
    """Why this environment's worker must import everything itself, whatever its wheel holds, or nothing."""
    if sys.platform != "linux":
        return "workers are forked on Linux only"
    if package.fresh_process:
        return "pyproject.toml asks for a fresh process"
    if confinement.allow_network or confinement.secrets:
        return "variables are declared, or the network is allowed, which imports may heed"
    return ""


def reason_in_wheel(overlay: Path) -> str:
    """Why verifiers is to be imported with this unpacked wheel on the path, or nothing."""
    for name in sorted(os.listdir(overlay)):  # noqa: PTH208
        if name in SITE_MODULES:
            return f"the wheel brings {name}, which Python imports first of all"
        if name.endswith(".dist-info") and (overlay / name / "entry_points.txt").is_file():
            return "the wheel has entry points, which imports may look for"
    return ""


def modules_in(folder: Path) -> set[str]:
    """What can be imported from a folder, and a little more."""
    return {name.partition(".")[0] for name in os.listdir(folder)}  # noqa: PTH208
