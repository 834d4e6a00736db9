"""Recognises frames of foreign modules without reading their code."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any


class ForeignModules:
    """Modules without code of the environment.

    Code that watches many frames checks their module first: reading a frame's code raises an audit event for every
    guard.
    """

    def __init__(self, relative: Callable[[str], str | None]) -> None:
        self._relative = relative
        self._known: dict[str, dict[str, Any]] = {}

    def has(self, frame: FrameType) -> bool:
        """Whether the frame runs in a known module; modules of one name count as one."""
        namespace = frame.f_globals
        name = namespace.get("__name__")
        return type(name) is str and self._known.get(name) is namespace

    def meet(self, frame: FrameType) -> None:
        """Remember the frame's module, if its file is outside the package and the frame's code comes from there."""
        namespace = frame.f_globals
        file, name = namespace.get("__file__"), namespace.get("__name__")
        if type(name) is str and file == frame.f_code.co_filename and self._relative(file) is None:
            self._known[name] = namespace
