"""The host's side of builds: one process that has imported what builds makes wheels, one after the other."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from envops.observe.facts import Failure
from envops.observe.starting import BOOTSTRAP_OF_BUILDS, WORKER_FOLDER, with_lifeline
from envops.observe.subprocesses import LOOK_SECONDS, OUTPUT_LIMIT, Interrupted, ProgramFailed
from envops.observe.venv import VirtualEnvironment
from envops.observe.worker.building import NOT_INSTALLED

BUILD_SECONDS = 180.0
PRINTED = "printed.txt"
"""What a build prints, in the folder that it makes its wheel in."""


class WheelBuilder:
    """A process that builds; use as a context manager. All that it started ends with it, and it with the host."""

    def __init__(self, tools: VirtualEnvironment, environment: Mapping[str, str], *, nice: int = 0) -> None:
        """Begin it with the variables that builds see, which may run anybody's code; `nice` as of Unix."""
        command: list[str | Path] = [tools.python, "-I", "-c", BOOTSTRAP_OF_BUILDS, WORKER_FOLDER]
        self._process, self._lifeline = with_lifeline(command, tools.folder, environment)
        self.python = tools.python
        self._nice = nice

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """End it and all that it started."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    @property
    def is_there(self) -> bool:
        """Whether it can be asked."""
        return self._lifeline >= 0 and self._process.poll() is None

    def make(self, asked: Mapping[str, Any], folder: Path, stop: threading.Event) -> None:
        """Make a wheel in a folder, and its contents beside it, as `worker/building.py` understands the question.

        Raises `ProgramFailed` with kind `raised` where the author has to mend it, and `Interrupted` when `stop` is set.
        """
        printed = folder / PRINTED
        try:
            code = self._asked({**asked, "folder": str(folder), "printed": str(printed), "nice": self._nice}, stop)
        except (ProgramFailed, Interrupted):
            self.end()
            raise
        said = printed.read_text("utf-8", "replace")[-OUTPUT_LIMIT:].strip() if printed.exists() else ""
        printed.unlink(missing_ok=True)
        if code:
            what = "InstallFailed" if code == NOT_INSTALLED else "BuildFailed"
            raise ProgramFailed(Failure("raised", what, f"it ended with exit code {code}:\n{said}"))

    def _asked(self, question: Mapping[str, Any], stop: threading.Event) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + BUILD_SECONDS
        try:
            answers = self._process.stdout.fileno()
            os.write(self._process.stdin.fileno(), json.dumps(question).encode() + b"\n")
            while not select.select([answers], [], [], LOOK_SECONDS)[0]:
                if stop.is_set():
                    raise Interrupted
                if time.monotonic() > deadline:
                    raise ProgramFailed(Failure("raised", "BuildFailed", f"it took longer than {BUILD_SECONDS:g} s"))
            return int(os.read(answers, 64))
        except (OSError, ValueError):
            gone = Failure("raised", "BuildFailed", "the process that builds it was ended meanwhile")
            raise ProgramFailed(gone) from None
