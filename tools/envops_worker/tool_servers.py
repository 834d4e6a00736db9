"""Tool servers forked from the base of the environment, which has imported verifiers and loaded nothing.

verifiers starts a tool server as a Python process of its own. That imports verifiers once more, and is looked for once
a second: four seconds before the first rollout. Here the base forks it, and it is handed over when it listens. What it
is given, where it runs and how it ends is verifiers' own business as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import runpy
import select
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

SIGN_OF_LIFE_SECONDS = 10.0
LISTENING_SECONDS = 30.0
"""How long a server may take to set itself up before verifiers looks for it in its own way."""

_base: list[socket.socket] = []
"""The way to the base, where this process was forked from one."""


def connect(base: socket.socket) -> None:
    """Have later servers forked by the process at the other end."""
    _base[:] = [base]


def fork_servers() -> None:
    """From now on, tool servers that verifiers starts are forked, where this process has a base."""
    if _base:
        from verifiers.v1.runtimes import subprocess

        # verifiers has no seam for how a server's process is started; this saves four seconds for each.
        subprocess.asyncio = AsyncioWithForks(_base[0])


class NotForked(RuntimeError):
    """No server came of it; a new process will do."""


class ForkedServer:
    """The part of asyncio's process that verifiers needs of one which goes on in the background."""

    def __init__(
        self, base: socket.socket, module: str, environment: Mapping[str, str], folder: Path, log: BinaryIO
    ) -> None:
        """Begin what `python -m module` would be. Raises `NotForked`."""
        self._report, report = os.pipe()
        lifeline, self._lifeline = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        descriptors = {"stdin": nothing, "stdout": log.fileno(), "stderr": log.fileno()}
        descriptors |= {"lifeline": lifeline, "report": report}
        settings = {"module": module, "environment": dict(environment), "folder": str(folder)}
        request = json.dumps({**settings, "descriptors": list(descriptors)}).encode()
        self._heard = b""
        try:
            socket.send_fds(base, [request], list(descriptors.values()))
            self._listen(SIGN_OF_LIFE_SECONDS)
            self.pid = int(self._heard.split(b"\n")[0])
        except (OSError, ValueError) as error:
            os.close(self._report)
            os.close(self._lifeline)
            raise NotForked(str(error)) from error
        finally:
            for descriptor in (nothing, lifeline, report):
                os.close(descriptor)

    @property
    def returncode(self) -> int | None:
        """The exit code once it is gone; the base reports it."""
        self._listen(0)
        code = self._heard.split(b"\n")[1:2]
        return int(code[0] or 0) if code and (code[0] or self._report < 0) else None

    async def wait(self) -> int:
        while (code := self.returncode) is None:  # noqa: ASYNC110 - what ends is another process
            await asyncio.sleep(0.01)
        return code

    def _listen(self, seconds: float) -> None:
        if self._report < 0 or not select.select([self._report], [], [], seconds)[0]:
            return
        part = os.read(self._report, 64)
        self._heard += part
        if not part:
            os.close(self._report)
            self._report = -1


class AsyncioWithForks:
    """`asyncio` as the runtime of verifiers sees it: tool servers are forked, and are listening when they are there."""

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
        await _listening(server, Path(port_file))
        return server


async def _listening(server: ForkedServer, port_file: Path) -> None:
    """Return when it answers, is gone, or takes long."""
    pause, deadline = 0.01, time.monotonic() + LISTENING_SECONDS
    while server.returncode is None and time.monotonic() < deadline:
        if _answers(port_file):
            return
        await asyncio.sleep(pause)
        pause = min(0.2, pause * 1.2)


def _answers(port_file: Path) -> bool:
    """Whether a server listens on the port that the file names."""
    try:
        socket.create_connection(("127.0.0.1", int(port_file.read_text())), 1.0).close()
    except (OSError, ValueError):
        return False
    return True


def run_module(settings: Mapping[str, Any]) -> NoReturn:
    """Be what `python -m module` would be, in a fork of the base that has taken its place."""
    code = 0
    try:
        os.environ.clear()
        os.environ.update(settings["environment"])
        os.chdir(settings["folder"])
        tempfile.tempdir = None  # TMPDIR is another one
        sys.argv = [settings["module"]]
        runpy.run_module(settings["module"], run_name="__main__", alter_sys=True)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if not isinstance(error.code, int | None):
            print(error.code, file=sys.stderr)
    except BaseException as error:
        code = 1
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code & 0xFF)
