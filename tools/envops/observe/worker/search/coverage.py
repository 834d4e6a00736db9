"""Which lines of the package's own code a scoring reached, and which steps from line to line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from ..adapter import RewardCode

ALL_WATCHED = 40
"""So many blocks are watched whole: where reward functions alone led to the package's own code, they alone are later.

While Python watches anything, all else that runs is slower too.
"""


class Coverage:
    """Watches the package's functions while a block runs; foreign functions cost one look each."""

    def __init__(self, relative: Callable[[str], str | None]) -> None:
        self._relative = relative
        self._own: dict[CodeType, str | None] = {}
        self._before = 0
        self._blocks = 0
        self._whole = True
        self._rewards_running = 0
        self._entered_elsewhere = False
        """Whether own code ran that no reward function had called."""
        self.steps: set[tuple[CodeType, int, int]] = set()

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
        """A reward function is called, perhaps beside others."""
        self._rewards_running += 1
        if self._rewards_running == 1 and not self._whole:
            sys.settrace(self._entered)

    def ended(self) -> None:
        """It has ended."""
        self._rewards_running -= 1
        if self._rewards_running == 0 and not self._whole:
            sys.settrace(None)

    def _entered(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        try:
            name = self._own[code]
        except KeyError:
            name = self._own[code] = self._relative(code.co_filename)
        if name is None:
            return None
        if not self._rewards_running:
            self._entered_elsewhere = True
        self._before = 0
        return self._moved

    def _moved(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self.steps.add((frame.f_code, self._before, frame.f_lineno))
            self._before = frame.f_lineno
        return self._moved

    @property
    def codes(self) -> list[CodeType]:
        return [code for code, name in self._own.items() if name is not None]

    @property
    def lines_reached(self) -> int:
        return len({(code, line) for code, _, line in self.steps if line != code.co_firstlineno})

    @property
    def lines_known(self) -> int:
        """Lines of the functions that were entered; where a function begins is not run by a call."""
        return sum(len({line for *_, line in code.co_lines() if line} - {code.co_firstlineno}) for code in self.codes)

    @property
    def files(self) -> dict[str, str]:
        """The files that scoring went through: absolute name → name in the package."""
        return {code.co_filename: name for code, name in self._own.items() if name is not None}
