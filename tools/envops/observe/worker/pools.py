"""Pools of processes and threads that an environment keeps: a fork of the worker gets ones of its own.

A pool of processes hands its work out through pipes. A fork has the same pipes, so that the pool's processes of one
would take, and answer, what the other one asked; threads are not in a fork at all. Rubrics of verifiers that
compare mathematics keep such a pool.
"""

from __future__ import annotations

import functools
import os
import weakref
from concurrent.futures.process import ProcessPoolExecutor
from concurrent.futures.thread import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

_pools: weakref.WeakSet[Any] = weakref.WeakSet()
_arguments: dict[Any, tuple[str, ...]] = {
    ProcessPoolExecutor: ("max_workers", "mp_context", "initializer", "initargs"),
    ThreadPoolExecutor: ("max_workers", "thread_name_prefix", "initializer", "initargs"),
}
_made = {kind: kind.__init__ for kind in _arguments}


def renew_pools_in_forks() -> None:
    """From now on remember pools as they are made, and in each fork begin them anew."""
    if ProcessPoolExecutor.__init__ is not _made[ProcessPoolExecutor]:
        return
    for kind in _arguments:
        kind.__init__ = _remembering(kind)
    os.register_at_fork(after_in_child=_renew_all)


def end_pools() -> None:
    """End the processes of all pools: they hold open whatever this fork had open, so that nobody sees its end."""
    for pool in list(_pools):
        for process in list((vars(pool).get("_processes") or {}).values()):
            with suppress(Exception):
                process.kill()


def _remembering(kind: Any) -> Any:
    make = _made[kind]

    @functools.wraps(make)
    def remembered(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        _pools.add(self)

    return remembered


def _renew_all() -> None:
    for pool in list(_pools):
        for kind, names in _arguments.items():
            if isinstance(pool, kind):
                fresh = kind.__new__(kind)
                _made[kind](fresh, **{name: getattr(pool, f"_{name}") for name in names})
                vars(pool).update(vars(fresh))
