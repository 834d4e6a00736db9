"""What environments need before their turn, made while the first of them are still importing verifiers."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

from envops.repository.lock import LOCK_FILE
from envops.system.capacity import usable_cores
from envops.system.subprocesses import Interrupted, ProgramFailed
from envops.validation.judging import Question
from envops.validation.requests import requests_for
from envops.validation.templates import LockTemplates
from envops.validation.test_dependencies import make_toolboxes
from envops.validation.venv import mark_imported, venv_for
from envops.validation.wheel import built_wheel

INSTALLED_AT_A_TIME = 2
"""Virtual environments: installing waits for the disk and the network."""


class Preparation:
    """Virtual environments, lock templates, toolboxes and wheels of one run; use as a context manager.

    What goes wrong here goes wrong again, and is told, when the environment's turn has come.
    """

    def __init__(
        self, question: Question, venvs: Mapping[str, str], templates: LockTemplates, stop: threading.Event
    ) -> None:
        """Begin with what the first environments need. `venvs` names everybody's virtual environment by its key."""
        self._question, self._templates, self._stop = question, templates, stop
        self._keys = venvs
        self._packages = question.repository.packages
        self._open = ExitStack()
        installers = self._open.enter_context(ThreadPoolExecutor(INSTALLED_AT_A_TIME))
        builders = self._open.enter_context(ThreadPoolExecutor(max(1, usable_cores() - 1)))  # one is for the import
        self._venvs = {key: installers.submit(self._make_venv, key) for key in dict.fromkeys(venvs.values())}
        installers.submit(self._make_toolboxes)
        self._wheels = {name: builders.submit(self._make_wheel, name) for name in venvs}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def ready(self, names: Collection[str]) -> set[str]:
        """Those of them whose turn may come: nothing that they need is being made."""
        return {name for name in names if all(one.done() for one in self._needed(name))}

    def awaited(self) -> list[Future[None]]:
        """What is still being made that environments wait for."""
        return [one for one in (*self._venvs.values(), *self._wheels.values()) if not one.done()]

    def _needed(self, name: str) -> Iterator[Future[None]]:
        yield self._venvs[self._keys[name]]
        if name in self._wheels and self._wheels[name].running():  # one that hangs holds up nobody else
            yield self._wheels[name]

    def _make_venv(self, key: str) -> None:
        """The virtual environment of all with this key, in which their template begins to import."""
        names = [name for name, its in self._keys.items() if its == key]
        entries = self._question.repository.registry.environments
        with suppress(ProgramFailed, Interrupted, OSError):
            lock = self._packages[names[0]].folder / LOCK_FILE
            venv = venv_for(lock, self._question.workspace, self._stop, imported=False)
            for name in names:
                confinement = requests_for(entries[name], self._question.wish).confinement
                if self._templates.begin(venv, self._packages[name], confinement):
                    mark_imported(venv.folder)  # by a template, which compiles that

    def _make_wheel(self, name: str) -> None:
        with suppress(ProgramFailed, Interrupted, OSError):
            if not self._stop.is_set():
                built_wheel(self._packages[name], self._question.workspace, self._stop)

    def _make_toolboxes(self) -> None:
        with suppress(ProgramFailed, Interrupted, OSError):
            packages = [self._packages[name] for name in self._keys]
            make_toolboxes(packages, self._question.workspace, self._question.wish, self._stop)
