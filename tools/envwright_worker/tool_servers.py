"""Tool servers forked from the base of the environment, which has imported verifiers and loaded nothing.

verifiers starts a tool server as a Python process of its own. It imports verifiers again, and verifiers polls it once a
second: four seconds before the first rollout. Here the base forks it, and it is returned when it listens. verifiers
still controls its arguments, its place and its end.
"""

from __future__ import annotations

import asyncio
import os
import runpy
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from envwright_worker.forking import ForkedProcess, NotForked, fork, pipe

LISTENING_SECONDS = 30.0
"""Seconds for the setup of a server before verifiers searches for it in its own way."""

_base: list[socket.socket] = []
"""The socket of the base, if this process was forked from one."""


def connect(base: socket.socket) -> None:
    """Have later servers forked by the process at the other end."""
    _base[:] = [base]


def fork_servers() -> None:
    """Fork the tool servers that verifiers starts from now on, if this process has a base."""
    if _base:
        from verifiers.v1.runtimes import subprocess

        # verifiers has no hook for the start of a server's process; this saves four seconds for each.
        subprocess.asyncio = AsyncioWithForks(_base[0])


class ForkedServer:
    """The part of asyncio's process that verifiers needs for one in the background."""

    def __init__(
        self, base: socket.socket, module: str, environment: Mapping[str, str], folder: Path, log: BinaryIO
    ) -> None:
        """Start the equivalent of `python -m module`. Raises `NotForked`."""
        settings = {"module": module, "environment": dict(environment), "folder": str(folder)}
        with ExitStack() as theirs, ExitStack() as ours:
            lifeline, _ = pipe(theirs, ours)
            nothing = theirs.enter_context(open(os.devnull))  # noqa: PTH123
            given = {"stdin": nothing.fileno(), "stdout": log.fileno(), "stderr": log.fileno()}
            self._process: ForkedProcess = fork(base, settings, {**given, "lifeline": lifeline})
            self._lifeline = ours.pop_all()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        if (code := self._process.poll()) is not None:
            self._lifeline.close()  # each rollout may have a server of its own
        return code

    async def wait(self) -> int:
        while (code := self.returncode) is None:  # noqa: ASYNC110 - what ends is another process
            await asyncio.sleep(0.01)
        return code


class AsyncioWithForks:
    """The replacement of `asyncio` for the runtime of verifiers: tool servers are forked, and listen when they are
    returned."""

    def __init__(self, base: socket.socket) -> None:
        self._base = base

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def create_subprocess_exec(self, *command: str, **options: Any) -> Any:
        port_file = (options.get("env") or {}).get("MCP_PORT_FILE")
        if port_file is None or command[:2] != (sys.executable, "-m") or len(command) != 3:
            return await asyncio.create_subprocess_exec(*command, **options)
        try:
            server = ForkedServer(self._base, command[2], options["env"], options["cwd"], options["stdout"])
        except NotForked:
            return await asyncio.create_subprocess_exec(*command, **options)
        deadline = time.monotonic() + LISTENING_SECONDS
        while time.monotonic() < deadline and server.returncode is None:  # verifiers itself polls once a second
            if _listens(Path(port_file)):
                break
            await asyncio.sleep(0.02)
        return server


def _listens(port_file: Path) -> bool:
    """Whether a server listens on the port that the file names."""
    try:
        socket.create_connection(("127.0.0.1", int(port_file.read_text())), 1.0).close()
    except (OSError, ValueError):
        return False
    return True


def run_module(settings: Mapping[str, Any]) -> NoReturn:
    """Run the equivalent of `python -m module`, in a fork of the base."""
    os.environ.clear()
    os.environ.update(settings["environment"])
    os.chdir(settings["folder"])
    tempfile.tempdir = None  # TMPDIR is another one
    sys.argv = [settings["module"]]
    runpy.run_module(settings["module"], run_name="__main__", alter_sys=True)
    sys.exit()
