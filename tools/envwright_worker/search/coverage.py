"""The lines and line transitions of the package's own code that scoring executed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from envwright_worker.adapters.adapter import RewardCode
from envwright_worker.foreign_modules import ForeignModules

ALL_WATCHED = 40
"""The number of blocks that are traced completely. If only reward functions called the package's code in them, later
only those are watched.

While Python watches anything, all other code is slower too.
"""


class Coverage:
    """Watches the package's functions while a block runs; foreign functions cost one check each."""

    def __init__(self, relative: Callable[[str], str | None]) -> None:
        self._relative = relative
        self._foreign = ForeignModules(relative)
        self._own: dict[CodeType, _Walk | None] = {}
        self._blocks = 0
        self._whole = True
        self._rewards_running = 0
        self._entered_elsewhere = False
        """Whether code of the package ran that no reward function had called."""
        self.steps = 0
        """The number of new line transitions."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        self._blocks += 1
        self._rewards_running = 0
        self._whole = self._entered_elsewhere or self._blocks <= ALL_WATCHED
        RewardCode.listener = self
        if self._whole:
            sys.settrace(self._entered)
        try:
            yield
        finally:
            RewardCode.listener = None
            sys.settrace(None)

    def began(self) -> None:
        """Record the call of a reward function, perhaps beside others."""
        self._rewards_running += 1
        if self._rewards_running == 1 and not self._whole:
            sys.settrace(self._entered)

    def ended(self) -> None:
        """Record the end of a reward function."""
        self._rewards_running -= 1
        if self._rewards_running == 0 and not self._whole:
            sys.settrace(None)

    def _entered(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if self._foreign.has(frame):
            return None
        code = frame.f_code
        try:
            walk = self._own[code]
        except KeyError:
            walk = self._own[code] = self._walk_in(frame)
        if walk is None:
            return None
        if not self._rewards_running:
            self._entered_elsewhere = True
        walk.before = 0
        return walk.moved

    def _walk_in(self, frame: FrameType) -> _Walk | None:
        name = self._relative(frame.f_code.co_filename)
        if name is not None:
            return _Walk(self, name)
        self._foreign.meet(frame)
        return None

    @property
    def _walks(self) -> list[tuple[CodeType, _Walk]]:
        return [(code, walk) for code, walk in self._own.items() if walk is not None]

    @property
    def lines_reached(self) -> int:
        return sum(len({line for _, line in walk.steps} - {code.co_firstlineno}) for code, walk in self._walks)

    @property
    def lines_known(self) -> int:
        """Lines of the functions that were entered, without the first line of a function, which a call does not run."""
        known = ({line for *_, line in code.co_lines() if line} - {code.co_firstlineno} for code, _ in self._walks)
        return sum(map(len, known))

    @property
    def files(self) -> dict[str, str]:
        """The files that scoring went through: absolute name → name in the package."""
        return {code.co_filename: walk.name for code, walk in self._walks}


class _Walk:
    """The steps from line to line in one function; looking a function up costs more than a step."""

    def __init__(self, coverage: Coverage, name: str) -> None:
        self._coverage = coverage
        self.name = name
        """Of its file."""
        self.before = 0
        self.steps: set[tuple[int, int]] = set()

    def moved(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            step = self.before, frame.f_lineno
            if step not in self.steps:
                self.steps.add(step)
                self._coverage.steps += 1
            self.before = step[1]
        return self.moved
