"""Tool servers forked from a process that has imported verifiers, and nothing of the environment.

verifiers starts a tool server as a Python process of its own. That imports verifiers once more, and is looked for once
a second: four seconds before the first rollout. Here it is forked, from before the environment was loaded, and is
handed over when it listens. What it is told, where it runs and how it ends is verifiers' own business as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from .imported import collector_at_rest, draw_anew
from .warden import die_with_parent

DESCRIPTORS = 3
"""What comes with a request: the question, where to print to, and where to say one's number."""
SERVED_WITH = ("uvicorn", "httpx", "mcp.server.mcpserver", "mcp.server.fastmcp", "mcp.server.transport_security")
"""What every tool server of verifiers 0.3 or 0.4 imports when it is started; some are of one release alone."""
SIGN_OF_LIFE_SECONDS = 10.0
LISTENING_SECONDS = 30.0
"""How long a server may take to set itself up before verifiers looks for it in its own way."""


class NoNursery(RuntimeError):
    """No server can be forked; a fresh process will do."""


class Nursery:
    """The process that servers are forked from; it ends with the one that made it."""

    def __init__(self) -> None:
        """Fork it. Raises `NoNursery` where other threads run, whom no fork inherits."""
        if threading.active_count() > 1:
            raise NoNursery("other threads run")
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        self._process = os.fork()
        if self._process == 0:
            self._control.close()
            _serve_forks(theirs, parent)
        theirs.close()

    def prepare(self) -> None:
        """Have it import what tool servers are made of, while this process does something else."""
        with contextlib.suppress(OSError):  # where it is gone, `server` says so
            self._control.send(b"0")

    def end(self) -> None:
        """End it; servers that it has forked go on."""
        self._control.close()
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)

    def server(self, module: str, environment: Mapping[str, str], folder: Path, log: BinaryIO) -> ForkedServer:
        """What `python -m module` would be. Raises `NoNursery` when it does not come to that."""
        heard, said = os.pipe()
        try:
            with tempfile.TemporaryFile() as question:
                asked = {"module": module, "environment": dict(environment), "folder": str(folder)}
                question.write(json.dumps(asked).encode())
                question.seek(0)
                socket.send_fds(self._control, [b"1"], [question.fileno(), log.fileno(), said])
        except OSError as error:
            os.close(heard)
            raise NoNursery(str(error)) from error
        finally:
            os.close(said)
        return ForkedServer(heard)


class ForkedServer:
    """The part of asyncio's process that verifiers needs of one which goes on in the background."""

    def __init__(self, heard: int) -> None:
        self._heard = heard
        number = os.read(heard, 32) if select.select([heard], [], [], SIGN_OF_LIFE_SECONDS)[0] else b""
        if not number:
            os.close(heard)
            raise NoNursery("it gave no sign of life")
        self.pid = int(number)
        self._ended = False

    @property
    def returncode(self) -> int | None:
        """0 once it is gone, however it went."""
        if not self._ended and select.select([self._heard], [], [], 0)[0]:
            os.close(self._heard)
            self._ended = True
        return 0 if self._ended else None

    async def wait(self) -> int:
        while self.returncode is None:  # noqa: ASYNC110 - what ends is another process
            await asyncio.sleep(0.01)
        return 0


class AsyncioWithForks:
    """`asyncio` as the runtime of verifiers sees it: tool servers are forked, and are listening when they are there."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def create_subprocess_exec(self, *command: str, **options: Any) -> Any:
        port_file = (options.get("env") or {}).get("MCP_PORT_FILE")
        if port_file is None or command[:2] != (sys.executable, "-m") or len(command) != 3:
            return await asyncio.create_subprocess_exec(*command, **options)
        try:
            server = self._nursery.server(command[2], options["env"], options["cwd"], options["stdout"])
        except NoNursery:
            return await asyncio.create_subprocess_exec(*command, **options)
        await _listening(server, Path(port_file))
        return server


def fork_servers(nursery: Nursery) -> None:
    """From now on, tool servers in this process and its forks come from there."""
    from verifiers.v1.runtimes import subprocess

    nursery.prepare()
    subprocess.asyncio = AsyncioWithForks(nursery)


async def _listening(server: ForkedServer, port_file: Path) -> None:
    """Return when it answers, is gone, or takes long."""
    pause, deadline = 0.01, time.monotonic() + LISTENING_SECONDS
    while server.returncode is None and time.monotonic() < deadline:
        if _answers(port_file):
            return
        await asyncio.sleep(pause)
        pause = min(0.2, pause * 1.2)


def _answers(port_file: Path) -> bool:
    """Whether somebody listens on the port that the file names."""
    try:
        socket.create_connection(("127.0.0.1", int(port_file.read_text())), 1.0).close()
    except (OSError, ValueError):
        return False
    return True


def _serve_forks(control: socket.socket, parent: int) -> None:
    """Fork a server for every question, until the parent is gone; never return."""
    try:
        die_with_parent(parent)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # their ends are heard where they are waited for
        while True:
            said, descriptors, _, _ = socket.recv_fds(control, 1, DESCRIPTORS)
            if not said:
                break
            if not descriptors:
                _import_what_servers_need()
            elif os.fork() == 0:
                control.close()
                _become_server(*descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
    finally:
        os._exit(0)


def _import_what_servers_need() -> None:
    for module in SERVED_WITH:
        with contextlib.suppress(Exception), collector_at_rest():
            importlib.import_module(module)
    gc.freeze()


def _become_server(question: int, log: int, said: int) -> None:
    """Be what a fresh process would be; never return."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in (question, log, said):
            os.set_inheritable(descriptor, False)  # what a server starts would hold them open
        os.setsid()
        with os.fdopen(question, "rb") as asked:
            settings = json.load(asked)
        for stream, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, log), (2, log)):
            os.dup2(source, stream)
        os.environ.clear()
        os.environ.update(settings["environment"])
        os.chdir(settings["folder"])
        tempfile.tempdir = None  # TMPDIR is another one
        draw_anew()
        os.write(said, f"{os.getpid()}\n".encode())
        sys.argv = [settings["module"]]
        runpy.run_module(settings["module"], run_name="__main__", alter_sys=True)
    except BaseException as error:
        if not isinstance(error, SystemExit):
            sys.excepthook(type(error), error, error.__traceback__)
        elif error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)
