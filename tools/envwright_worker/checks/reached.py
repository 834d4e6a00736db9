"""The lines of a package that run while its reward functions are called."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from envwright_worker.adapters.adapter import CALLERS
from envwright_worker.failures import Sources
from envwright_worker.foreign_modules import ForeignModules


class Reached:
    """Watches the interpreter; lines outside of reward functions and metrics do not count."""

    def __init__(self, sources: Sources) -> None:
        self.speaker = ""
        """Whose conversation is scored now: a policy, or the author's cases."""
        self.lines: dict[str, dict[str, set[int]]] = {}
        """File → speaker → lines."""
        self.rewards: dict[str, set[str]] = {}
        """File → qualified names of the functions of the package that the adapter itself calls."""
        self._sources = sources
        self._names: dict[str, str | None] = {}
        self._foreign = ForeignModules(sources.relative)

    def facts(self) -> dict[str, Any]:
        return {
            "lines": {
                file: {speaker: sorted(lines) for speaker, lines in by.items()} for file, by in self.lines.items()
            },
            "rewards": {file: sorted(names) for file, names in self.rewards.items()},
        }

    @contextmanager
    def watching(self) -> Iterator[None]:
        threading.settrace(self._called)
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def _called(self, frame: FrameType, event: str, _argument: Any) -> Any:
        file = self._file(frame)
        if file is None or event != "call":
            return None
        inside, direct = self._standing(frame)
        if not inside:
            return None
        if direct:
            self.rewards.setdefault(file, set()).add(frame.f_code.co_qualname)
        lines = self.lines.setdefault(file, {}).setdefault(self.speaker, set())

        def ran(frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return ran

        return ran

    def _file(self, frame: FrameType) -> str | None:
        if self._foreign.has(frame):
            return None
        filename = frame.f_code.co_filename
        if filename not in self._names:
            self._names[filename] = self._sources.relative(filename)
        if self._names[filename] is None:
            self._foreign.meet(frame)
        return self._names[filename]

    def _standing(self, frame: FrameType) -> tuple[bool, bool]:
        """Whether a reward function or metric is running, and whether it is this one."""
        direct = True
        above = frame.f_back
        if above is None or threading.current_thread() is not threading.main_thread():
            return True, False  # started by earlier code; nothing else is scored now
        while above is not None:
            if above.f_code in CALLERS:
                return True, direct
            direct = direct and self._file(above) is None
            above = above.f_back
        return False, False
