"""A process that imports verifiers once and forks a worker for every environment with the same lock.

It runs no environment's code, holds no declared variable and sees no request: what a worker needs
to know travels in a pipe that the worker alone reads. A worker is forked from before anything was
loaded, so that nothing of one environment can reach another.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from .aside import CLIENTS, ENDPOINT, Surroundings, forget_all
from .confinement import NetworkGuard
from .failures import Sources
from .imported import AHEAD, collector_at_rest, draw_anew, import_verifiers
from .judges import import_clients
from .main import OPERATIONS
from .moving import Holder, Unmovable, holders_of, move
from .warden import fork_worker

TOOLBOXES = "ENVOPS_TOOLBOXES"
"""The variable that says what tests and searches bring along: the arguments of what imports it, by its name."""
IMPORTS_LATE = ("v1",)
"""Generations of verifiers that import, with every environment, much of what tests and clients of models stand upon."""
DESCRIPTORS = 6
"""What comes with a request: the question, standard input, output and error, the lifeline, the end's report."""


def serve_forks() -> None:
    """Import, say whether forks of this process are sound, and fork until the host closes its end."""
    control = socket.socket(fileno=int(os.environ.pop("ENVOPS_FORKS")))
    control.set_inheritable(False)
    known, generation = _descriptors(), os.environ.pop(AHEAD)
    guard = NetworkGuard(Sources(), allowed=False)
    try:
        guard.watch()
        sys.dont_write_bytecode = False  # no environment's code is here, and nobody else compiles these
        with collector_at_rest():
            _import_everything(generation, json.loads(os.environ.pop(TOOLBOXES, "{}")))
        holders = _holders(str(Path(os.environ["HOME"]).parent))
        _refuse_what_no_fork_inherits(known)
    except BaseException as error:
        control.send(json.dumps({"unsafe": str(error) or type(error).__name__}).encode())
        os._exit(0)
    sys.dont_write_bytecode = True
    gc.freeze()  # what was imported stays one copy for all
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # their ends are told by themselves
    control.send(json.dumps({"modules": [name for name in sys.modules if "." not in name]}).encode())
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, DESCRIPTORS)
        if not descriptors:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            _become_worker(descriptors, guard, holders)
        for descriptor in descriptors:
            os.close(descriptor)


def _import_everything(generation: str, toolboxes: Mapping[str, list[str]]) -> None:
    """What all forks have, and what some of them need, out of sight."""
    _import_all(generation)
    surroundings = Surroundings()  # which knows all paths by heart: it must be gone when they are looked for
    with suppress(Exception):  # what goes wrong goes wrong again where it is needed, and is told there
        surroundings.set_aside(ENDPOINT, functools.partial(importlib.import_module, ".endpoint", __package__))
        if generation not in IMPORTS_LATE:
            surroundings.set_aside(CLIENTS, import_clients)
    _import_toolboxes(surroundings, generation, toolboxes)


def _import_all(generation: str) -> None:
    """What loading any environment of this generation imports, in the same order."""
    importlib.import_module(".operations.load", __package__)
    import_verifiers(generation)
    importlib.import_module(f".adapter_{generation}", __package__)
    for operation in OPERATIONS:
        importlib.import_module(f".operations.{operation}", __package__)


def _import_toolboxes(surroundings: Surroundings, generation: str, toolboxes: Mapping[str, list[str]]) -> None:
    """Import what tests and searches bring along, out of sight of all environments, where it is made already."""
    from .author_tests import import_tests
    from .search.properties import import_search

    loads: dict[str, Callable[..., object]] = {"search": import_search}
    if generation not in IMPORTS_LATE:
        loads["tests"] = import_tests
    gc.freeze()  # pytest collects garbage several times, and would go through all of verifiers
    for name, load in loads.items():
        paths = toolboxes.get(name, [])
        if paths and all(map(os.path.isdir, paths)):
            with suppress(Exception):
                surroundings.set_aside(paths[0], functools.partial(load, *paths), CLIENTS)
    gc.unfreeze()


def _holders(folder: str) -> list[Holder]:
    """What remembers the folder; what was set aside is let go of where that alone remembers it and cannot be moved."""
    with suppress(Unmovable):
        return holders_of(folder)
    gc.collect()  # perhaps it is garbage that remembers it
    with suppress(Unmovable):
        return holders_of(folder)
    forget_all()
    return holders_of(folder)


def _refuse_what_no_fork_inherits(known: set[int]) -> None:
    """Raise where the imports left something behind that two processes cannot both have."""
    others = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if others:
        raise Unmovable(f"the import leaves threads behind: {', '.join(others)}")
    for descriptor in _descriptors() - known:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISCHR(mode) and not stat.S_ISDIR(mode):
            raise Unmovable(f"the import leaves a channel open: {Path(f'/proc/self/fd/{descriptor}').readlink()}")


def _descriptors() -> set[int]:
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            os.fstat(int(name))
            found.add(int(name))
        except OSError:  # the one that listed them
            pass
    return found


def _become_worker(descriptors: list[int], guard: NetworkGuard, holders: list[Any]) -> None:
    """Be what a fresh process would be, under a warden of its own; never return."""
    try:
        question, *streams, lifeline, report = descriptors
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
            os.close(stream)
        with os.fdopen(question, "rb") as asked:
            settings = json.loads(asked.read())
        os.environ.clear()
        os.environ.update(settings["environment"])
        os.chdir(settings["folder"])
        os.write(report, f"{os.getpid()}\n".encode())
        fork_worker(lifeline, report)
        move(holders, settings["folder"])
        draw_anew()
        sys.path.insert(0, settings["overlay"])
        importlib.invalidate_caches()
        from .main import serve

        serve(guard)
    finally:
        os._exit(70)
