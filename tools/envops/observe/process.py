"""The host's side of a worker: start it, ask it, watch it, end it with all it started."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from envops.observe.facts import Failure, Started, adapter
from envops.observe.families import memory_below
from envops.observe.starting import AHEAD, BOOTSTRAP, WORKER_FOLDER, NotForked, with_lifeline
from envops.observe.subprocesses import Interrupted
from envops.observe.venv import VirtualEnvironment
from envops.observe.worker.slate import VARIABLE as SLATE
from envops.observe.worker.slate import new_slate, read_slate

if TYPE_CHECKING:
    from envops.observe.fork_server import ForkServer
    from envops.observe.starting import ForkedProcess

MEMORY_LIMIT = 4 * 2**30
"""Bytes that a worker and everything it started may hold together."""
LINE_LIMIT = 64 * 2**20
"""Bytes of one answer; a longer line is no answer."""
ERRORS_KEPT = 16_384
LOOK_SECONDS = 0.25
PATIENCE_SECONDS = 1.0
MARK = "ENVOPS_WORKER"


class StageFailed(Exception):
    """A request came to an end early; the worker lives and can be asked something else."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


class WorkerLost(StageFailed):
    """The worker is gone."""


@dataclass(frozen=True)
class Confinement:
    """What a worker is given of the machine."""

    secrets: Mapping[str, str]
    """Declared variables and their values."""
    allow_network: bool = False
    memory: int = MEMORY_LIMIT
    hash_seed: int = 0
    """Python's own: what the order of sets of strings follows from."""


class WorkerProcess:
    """One process that observes one environment; use as a context manager."""

    def __init__(
        self,
        venv: VirtualEnvironment,
        overlay: Path,
        scratch: Path,
        confinement: Confinement,
        stop: threading.Event,
        server: ForkServer | None = None,
        ahead: str = "",
    ) -> None:
        """Begin it: forked from a server, or fresh; with `ahead`, which generation of verifiers it imports at once."""
        self._stop = stop
        self._memory = confinement.memory
        self.peak_memory = 0
        """Bytes that it and everything it started held at most, as far as that was looked at."""
        self._mark = uuid.uuid4().hex
        self._errors = bytearray()
        self._buffer = bytearray()
        self._searched = 0
        self._requests = 0
        self._unsent = b""
        """Lines that it had not sent when it ended."""
        environment = worker_environment(venv, overlay, scratch, confinement) | {MARK: self._mark}
        environment |= {AHEAD: ahead} if ahead else {}
        slate = scratch / f"slate-{self._mark}"
        self._slate = -1
        with suppress(OSError):  # a full disk: then nobody learns what it is about
            self._slate = new_slate(slate)
            environment[SLATE] = str(slate)
        try:
            self._process, self._lifeline, self.started = _begun(venv, overlay, scratch, environment, server)
        except BaseException:
            self._close_slate()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._warden = _process_of(self._process.pid)
        os.set_blocking(self._process.stdin.fileno(), False)
        self._selector = selectors.DefaultSelector()
        for stream, name in ((self._process.stdout, "answers"), (self._process.stderr, "errors")):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        return self._process.pid

    def request(self, operation: str, within: float, **parameters: Any) -> Iterator[tuple[str, Any]]:
        """Ask for an operation, allow it `within` seconds, and yield its parts, kind and value.

        Raises `StageFailed` when the environment's code broke it off, `WorkerLost` when the
        worker died, hung, filled its memory or spoke nonsense, and `Interrupted` when the
        run was cancelled. The worker is ended in the latter two cases, and what it had not
        sent comes before `WorkerLost`.
        """
        self._requests += 1
        deadline = time.monotonic() + within
        line = json.dumps({"id": self._requests, "operation": operation, **parameters}, default=str)
        try:
            self._write(line.encode() + b"\n", deadline, within)
            yield from self._answers(deadline, within)
        except Interrupted:
            self.end()
            raise
        except WorkerLost:
            self.end()
            yield from self._left_behind()
            raise

    def _write(self, line: bytes, deadline: float, seconds: float) -> None:
        assert self._process.stdin is not None
        pipe = self._process.stdin.fileno()
        rest = memoryview(line)
        while rest:
            try:
                rest = rest[os.write(pipe, rest) :]
            except BlockingIOError:  # the worker does not read; it is given its time and no more
                self._check_limits(deadline, seconds)
                time.sleep(0.01)
            except OSError:
                raise self._died() from None

    def _answers(self, deadline: float, seconds: float) -> Iterator[tuple[str, Any]]:
        for message in self._messages(deadline, seconds):
            if message.get("id") != self._requests:
                continue
            event = message.get("event")
            if event == "done":
                return
            if event == "failed":
                raise StageFailed(checked(Failure, message.get("failure")))
            if event != "item" or not isinstance(message.get("kind"), str):
                raise self._nonsense(f"an answer that is neither item nor end: {str(message)[:200]}")
            yield message["kind"], message["value"]

    def _messages(self, deadline: float, seconds: float) -> Iterator[dict[str, Any]]:
        looked = time.monotonic()
        while True:
            while (end := self._buffer.find(b"\n", self._searched)) >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                self._searched = 0
                yield self._parsed(line)
            self._searched = len(self._buffer)
            self._check_limits(deadline, seconds)
            now = time.monotonic()
            if now - looked > LOOK_SECONDS:
                looked = now
                self._check_memory()
            self._read(min(LOOK_SECONDS, max(0.0, deadline - now)))

    def _check_limits(self, deadline: float, seconds: float) -> None:
        if self._stop.is_set():
            raise Interrupted
        if time.monotonic() > deadline:
            raise WorkerLost(self._failure("timeout", "Timeout", f"no answer after {seconds:g} s"))

    def _read(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            data = os.read(key.fd, 1 << 20)
            if not data:
                self._selector.unregister(key.fileobj)
                if key.data == "answers":
                    raise self._died()
            elif key.data == "errors":
                self._errors = (self._errors + data)[-ERRORS_KEPT:]
            else:
                self._buffer += data
                if len(self._buffer) > LINE_LIMIT:
                    raise self._nonsense(f"a line of over {LINE_LIMIT >> 20} MiB")

    def _left_behind(self) -> Iterator[tuple[str, Any]]:
        """What a worker that is gone had not sent yet, up to the first line that is none."""
        for line in self._unsent.splitlines():
            try:
                message = json.loads(line)
                kind, value, asked = message["kind"], message["value"], message["id"]
            except (ValueError, LookupError, TypeError, RecursionError):
                return
            if asked == self._requests and isinstance(kind, str):
                yield kind, value

    def _close_slate(self) -> None:
        if self._slate >= 0:
            os.close(self._slate)
            self._slate = -1

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise self._nonsense(f"a line that is not JSON: {line[:200]!r}")
        return message

    def _check_memory(self) -> None:
        try:  # without its warden, which shares what it was forked from
            held = memory_below(self._process.pid)
        except OSError:
            held = sum(map(memory_of, self._family()[1:]))
        self.peak_memory = max(self.peak_memory, held)
        if held > self._memory:
            message = f"the worker and its children held {held >> 20} MiB; the limit is {self._memory >> 20} MiB"
            raise WorkerLost(self._failure("memory", "OutOfMemory", message))

    def _family(self) -> list[Any]:
        """The warden, and the worker with all that it started."""
        import psutil

        try:
            return [self._warden, *self._warden.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _died(self) -> WorkerLost:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        with suppress(OSError, ValueError):
            assert self._process.stderr is not None
            self._errors += os.read(self._process.stderr.fileno(), ERRORS_KEPT)
        code = self._process.returncode
        if code is None:
            message = "the worker sent nothing more and closed its channel"
            return WorkerLost(self._failure("protocol", "ProtocolError", message))
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return WorkerLost(self._failure("crash", "WorkerDied", f"the worker ended with {how}"))

    def _nonsense(self, what: str) -> WorkerLost:
        return WorkerLost(self._failure("protocol", "ProtocolError", f"the worker sent {what}"))

    def _failure(self, kind: Any, type: str, message: str) -> Failure:
        said = self._errors.decode("utf-8", "replace").strip()[-2_000:]
        return Failure(kind, type, message + self._about(), None, said)

    def _about(self) -> str:
        """What the worker is scoring or was, as far as it left word of it."""
        with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            about = json.loads(read_slate(self._slate)[0])
            if about["id"] == self._requests:
                return f"\nwhile scoring {json.dumps(about['value'])[:500]}"
        return ""

    def end(self) -> None:
        """End the worker and everything that it started, however deep and in whatever session."""
        import psutil

        family = self._family()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE_SECONDS)  # its warden ends everyone, and then itself
        for process in [*family, *marked_processes(self._mark)]:
            with suppress(psutil.Error):
                process.kill()
        self._process.wait()
        with suppress(OSError):
            _, self._unsent = read_slate(self._slate)
        self._close_slate()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        self._selector.close()


def _begun(
    venv: VirtualEnvironment, overlay: Path, scratch: Path, environment: Mapping[str, str], server: ForkServer | None
) -> tuple[subprocess.Popen[bytes] | ForkedProcess, int, Started]:
    """A worker's process, the descriptor that it dies with, and how it came to be."""
    reason = ""
    if server is not None:
        try:
            return *server.fork(environment, scratch, overlay), Started("forked")
        except NotForked as refusal:
            reason = str(refusal)
    command: list[str | Path] = [venv.python, "-s", "-P", "-c", BOOTSTRAP, WORKER_FOLDER]
    return *with_lifeline(command, scratch, environment), Started("fresh", reason)


def _process_of(pid: int) -> Any:
    """The process as it is now, which is not mistaken for another one that gets its number later."""
    import psutil

    return psutil.Process(pid)


def memory_of(process: Any) -> int:
    """Resident bytes of a process, 0 when it is gone."""
    import psutil

    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def marked_processes(mark: str) -> list[Any]:
    """Processes that carry a worker's mark although they left its group and its family."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark:
                found.append(process)
    return found


def worker_environment(
    venv: VirtualEnvironment, overlay: Path, scratch: Path, confinement: Confinement
) -> dict[str, str]:
    """The variables that a worker sees: none of the user's but the declared ones."""
    home, temporary = scratch / "home", scratch / "tmp"
    home.mkdir(exist_ok=True)
    temporary.mkdir(exist_ok=True)
    environment = {
        "PATH": f"{venv.folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(overlay.resolve()),  # as the places of failures are told by
        "PYTHONHASHSEED": str(confinement.hash_seed),
        "PYTHONDONTWRITEBYTECODE": "1",  # nothing of an environment's writes into what others import
        "TOKENIZERS_PARALLELISM": "false",
        "NO_PROXY": "127.0.0.1,localhost",
        "ENVOPS_ENDPOINT_KEY": "scripted",
        "PRIME_DISABLE_VERSION_CHECK": "1",
    }
    if confinement.allow_network:
        passed = ("HF_HOME", "HF_TOKEN", "HTTPS_PROXY", "HTTP_PROXY", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
        environment |= {name: os.environ[name] for name in passed if name in os.environ}
    else:
        environment |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return environment | dict(confinement.secrets)


def checked(kind: type, value: Any) -> Any:
    """A value from a worker as a fact.

    Raises `WorkerLost` when it has another shape.
    """
    from pydantic import ValidationError

    try:
        return adapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        message = f"the worker sent a {kind.__name__} of the wrong shape: {first['loc']}: {first['msg']}"
        raise WorkerLost(Failure("protocol", "ProtocolError", message)) from None
