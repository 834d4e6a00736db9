"""Importing verifiers, which takes most of the time of a run."""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Pause garbage collection in the block, which creates hundreds of thousands of lasting objects.

    Going through them again and again takes as long as the import itself.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def bytecode_below(folder: str) -> Iterator[None]:
    """Write bytecode below a folder, under the full path that it belongs to, because nothing else can be written.

    The host moves it to its place (`envwright/builds/venv.py`).
    """
    loader = importlib.machinery.SourceFileLoader
    write = loader.set_data

    def write_below(self: Any, path: str, data: Any, *, _mode: int = 0o666) -> None:
        write(self, folder + path, data, _mode=_mode)

    loader.set_data = write_below  # type: ignore[method-assign]
    try:
        yield
    finally:
        loader.set_data = write  # type: ignore[method-assign]


def import_verifiers(generation: str) -> None:
    """Import this generation of verifiers, with the modules that loading needs. Import errors pass through."""
    if generation == "v1":
        import verifiers.v1

        with suppress(ImportError):  # searched for built-in tasksets, before packages
            importlib.import_module("verifiers.v1.tasksets")
    else:
        import verifiers

        verifiers.Environment  # noqa: B018 - 0.3 loads its first generation when it is touched
