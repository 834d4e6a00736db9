"""Importing verifiers, which is most of what anybody waits for."""

from __future__ import annotations

import gc
import importlib
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Look for no garbage in the block: hundreds of thousands of objects are made there, and stay.

    Going through them again and again takes as long as the import itself.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def import_verifiers(generation: str) -> None:
    """Import this generation of verifiers, with what it imports to load anything. Raises whatever that raises."""
    if generation == "v1":
        import verifiers.v1

        with suppress(ImportError):  # where tasksets of its own are looked for, before those of packages
            importlib.import_module("verifiers.v1.tasksets")
    else:
        import verifiers

        verifiers.Environment  # noqa: B018 - 0.3 loads its first generation when it is touched


_last_before: list[str] = []
"""The name of the module that was imported last before the environment was; none where nobody remembered it."""


def remember_what_is_imported() -> None:
    """Take what comes from now on for the environment's: whatever it imports itself, and what that brings along."""
    _last_before[:] = [next(reversed(sys.modules))]


def modules_since() -> list[ModuleType]:
    """Modules that were imported since, or all of them.

    Looking at the thousands that forks share would have this process copy the memory that they lie in.
    """
    names = list(itertools.takewhile(lambda name: name not in _last_before, reversed(sys.modules)))
    return [sys.modules[name] for name in reversed(names)]


def draw_anew() -> None:
    """In a fork: chance differs from process to process; Python's own generator sees to itself."""
    generators = sys.modules.get("numpy.random")  # where it is not imported yet, it will begin by chance
    if generators is not None:
        generators.seed()
