"""Modules that were imported ahead and are kept out of sight until somebody needs them.

A process that workers are forked from imports what tests and the search bring along, once for all. Nothing of that may
be there for an environment: it would find what its lock does not name. So whatever the import changed in modules that
were there before is undone: what is new in `sys.modules` and in any module, on `sys.path`, among import hooks, filters
of warnings and handlers of logs. Modules, and what other modules got by them, come back in the fork that asks for it;
what tables got does not. And only where importing them there would find the same files on the same foundation.
"""

from __future__ import annotations

import builtins
import gc
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from operator import is_
from types import ModuleType
from typing import Any

CONTAINERS = (dict, list, set)
CLIENTS, ENDPOINT = "clients", "endpoint"
_IMPORTING = {"_frozen_importlib", "_frozen_importlib_external", "_imp", "_thread", "_weakref", __name__}
"""What is under way in these is no trace of a module."""

Variable = tuple[dict[str, Any], str, Any]
"""A namespace, a name in it, and its value."""


class Aside:
    """What one import brought."""

    def __init__(
        self, beneath: Mapping[str, ModuleType], modules: dict[str, ModuleType], added: list[Variable]
    ) -> None:
        self._beneath = beneath
        """What was there before and was asked for: it stands upon that."""
        self.modules = modules
        self.added = added
        """What modules that were there before got."""
        self._files = {name: _file_of(module.__spec__) for name, module in modules.items() if "." not in name}

    def bring_back(self) -> bool:
        """Have it all in sight, or nothing where importing it here would be something else."""
        if not self._fits():
            return False
        sys.modules.update(self.modules)
        for namespace, name, value in self.added:
            namespace.setdefault(name, value)
        return True

    def _fits(self) -> bool:
        if any(name in sys.modules for name in self.modules):
            return False
        if any(sys.modules.get(name) is not module for name, module in self._beneath.items()):
            return False
        return all(_file_of(_found(name)) == file for name, file in self._files.items())


_kept: dict[str, Aside] = {}


class Surroundings:
    """All that is imported by now, looked at once: every import that is set aside leaves it as it was."""

    def __init__(self) -> None:
        self._modules = dict(sys.modules)
        logs = logging.root
        others = (logs.handlers, logs.filters, vars(logs), logs.manager.loggerDict, gc.callbacks)
        self._contents = _Contents(self._modules, others)

    def set_aside(self, name: str, load: Callable[[], object], upon: str = "") -> None:
        """Import what `load` imports, and keep it out of sight under a name, which may be the folder it comes from.

        Raises what `load` raises.

        It may stand `upon` something else that was set aside, and will be brought back before. Nothing is
        kept where not all of it can be out of sight.
        """
        below = _kept.get(upon)
        if below is not None and not below.bring_back():
            below = None
        there = self._modules | (below.modules if below else {})
        contents_below = _Contents({}) if below is None else self._beside(below)
        try:
            with _imports_heard() as asked:
                load()
            modules = {each: module for each, module in sys.modules.items() if each not in there}
        finally:
            added = contents_below.restore() + self._contents.restore()
        if not any(_is_one_for_all(each, module, name) for each, module in modules.items()):
            beneath = {each: there[each] for each in asked if each in there}
            known = {(id(namespace), each) for namespace, each, _ in below.added} if below else set()
            new = [one for one in added if (id(one[0]), one[1]) not in known]
            _kept[name] = Aside(beneath, modules, new)

    def _beside(self, below: Aside) -> _Contents:
        """What the modules hold that were brought back, and what they gave to others, but nothing of those others."""
        given = [value for _, _, value in below.added if type(value) in CONTAINERS]
        return _Contents(below.modules, given, self._contents.watched)


@contextmanager
def _imports_heard() -> Iterator[set[str]]:
    """Names of modules, and of what may be modules, that anybody asks for in the block, whether they are there or not.

    A fork that looked at every module would have a copy of its own of most of the memory that they share.
    """
    asked: set[str] = set()
    statement, function = builtins.__import__, importlib.import_module

    def heard(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        found = statement(name, globals, locals, fromlist or (), level)
        base = found.__name__ if fromlist or level else name
        asked.update(_with_parents(base), (f"{base}.{each}" for each in fromlist or ()))
        return found

    def heard_too(name: str, package: str | None = None) -> ModuleType:
        found = function(name, package)
        asked.update(_with_parents(found.__name__))
        return found

    builtins.__import__, importlib.import_module = heard, heard_too
    try:
        yield asked
    finally:
        builtins.__import__, importlib.import_module = statement, function


def _with_parents(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]


def bring_back(name: str) -> bool:
    """Whether what was set aside under this name can be imported now without being loaded; it is brought back once."""
    aside = _kept.pop(name, None)
    return aside is not None and aside.bring_back()


def forget_all() -> None:
    """Let go of all that was set aside."""
    _kept.clear()
    gc.collect()


class _Contents:
    """What modules hold, so that it can be had back."""

    def __init__(
        self, modules: Mapping[str, ModuleType], others: Iterable[Any] = (), elsewhere: Set[int] = frozenset()
    ) -> None:
        """`others` are containers that no module names; those looked at `elsewhere`, by identity, are left out."""
        watched = [module for name, module in modules.items() if name not in _IMPORTING]
        self._namespaces = [vars(module) for module in watched if hasattr(module, "__dict__")]
        self._variables = [dict(namespace) for namespace in self._namespaces]
        held = {id(one): one for variables in self._variables for one in variables.values() if type(one) in CONTAINERS}
        held |= {id(one): one for one in others}
        for namespace in self._namespaces:
            held.pop(id(namespace), None)
        for number in elsewhere & held.keys():
            del held[number]
        self._containers: list[Any] = list(held.values())
        self._contents: list[Any] = [container.copy() for container in self._containers]

    @property
    def watched(self) -> set[int]:
        """All namespaces and containers, by identity."""
        return {id(one) for one in (*self._namespaces, *self._containers)}

    def restore(self) -> list[Variable]:
        """Have it as it was; returns what modules had got."""
        added = []
        for namespace, variables in zip(self._namespaces, self._variables, strict=True):
            if not _equal(namespace, variables):
                added += [(namespace, name, value) for name, value in namespace.items() if name not in variables]
                _refill(namespace, variables)
        for container, content in zip(self._containers, self._contents, strict=True):
            if not _equal(container, content):
                _refill(container, content)
        return added


def _equal(one: Any, other: Any) -> bool:
    """Whether two containers of a kind hold the very same."""
    if len(one) != len(other):
        return False
    if isinstance(one, set):
        return {id(each) for each in one} == {id(each) for each in other}
    same = all(map(is_, one, other))
    return same and (isinstance(one, list) or all(map(is_, one.values(), other.values())))


def _refill(container: Any, content: Any) -> None:
    """Let a container hold what another holds; what it holds already is not taken out for a moment."""
    if isinstance(container, list):
        container[:] = content
    elif isinstance(container, set):
        container &= content
        container |= content
    else:
        for key in [key for key in container if key not in content]:
            del container[key]
        container.update(content)


def _is_one_for_all(name: str, module: ModuleType, folder: str) -> bool:
    """Whether a module has the same state when it is imported anew: compiled ones are made once for a process.

    Nobody imports anew what lies in a folder that is set aside with it.
    """
    spec = module.__spec__
    if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
        return False
    elsewhere = not str(spec.origin).startswith(folder + os.sep)
    return elsewhere and name.partition(".")[0] not in sys.stdlib_module_names


def _found(name: str) -> Any:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _file_of(spec: Any) -> str | None:
    return None if spec is None else spec.origin
