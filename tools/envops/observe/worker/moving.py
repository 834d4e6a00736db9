"""Paths that were remembered while verifiers was imported, moved to the folder of the worker that was forked.

Libraries read HOME and TMPDIR when they are imported and keep what follows from them. All objects
are searched once for the folder that the server was started in. A module's variable can be set
anew in each worker; anything harder to reach makes forking unsound, and is said.
"""

from __future__ import annotations

import gc
import os
import posix
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

CONTAINERS = (dict, list)
NESTED = (tuple, dict, list, set, frozenset)
AT_ONCE = 200
"""Objects that are searched as one text: there are half a million, and a few dozen remember a folder."""


class Unmovable(Exception):
    """Forks of this process would not be what fresh processes are."""


Holder = tuple[Any, Any, int, str, type]
"""A dict or list, the key or index, which folder, the text below it, and what it is made to: str or a kind of path."""


def folder_names(folder: str) -> tuple[str, str]:
    """A folder as it was given, and as the system calls it."""
    return folder, os.path.realpath(folder)


def holders_of(folder: str) -> list[Holder]:
    """Everything that remembers a path in a folder, and can be made to remember another.

    Raises `Unmovable` when something remembers it that cannot.
    """
    search, owners = _Search(folder), gc.get_objects()
    return [
        holder
        for start in range(0, len(owners), AT_ONCE)
        for holder in search.held_by_any(owners[start : start + AT_ONCE])
    ]


def move(holders: list[Holder], folder: str) -> None:
    """Let everything remember paths in another folder."""
    names = folder_names(folder)
    for container, key, which, rest, kind in holders:
        container[key] = kind(names[which] + rest)


class _Search:
    def __init__(self, folder: str) -> None:
        self._names = folder_names(folder)
        self._set_anew = {id(vars(os.environ)["_data"]), id(posix.environ)}
        self._known_kinds: dict[type, bool] = {}
        self._without_text: set[type] = set()

    def held_by_any(self, owners: list[Any]) -> Iterator[Holder]:
        """What `held_by` says of each, asked only where the folder is in anything that they hold."""
        texts, encoded = self._held_together(owners)
        if any(name in texts or os.fsencode(name) in encoded for name in self._names):
            for owner in owners:
                yield from self.held_by(owner)

    def _held_together(self, owners: list[Any]) -> tuple[str, bytes]:
        """All texts and all bytes that these objects hold, one behind the other."""
        texts: set[str] = set()
        others: list[Any] = []
        unlisted: dict[int, Any] = {}
        while owners:
            known = len(unlisted)
            for value in gc.get_referents(*owners):
                kind = type(value)
                if kind is str:
                    texts.add(value)
                elif kind in self._without_text:
                    continue
                elif kind in NESTED:
                    if not gc.is_tracked(value):
                        unlisted[id(value)] = value
                elif self._holds_text(kind):
                    others.append(value)
                else:
                    self._without_text.add(kind)
            owners = list(unlisted.values())[known:]
        strange = [str(value) if isinstance(value, PurePath) else value for value in others]
        return (
            "\0".join([*texts, *(value for value in strange if isinstance(value, str))]),
            b"\0".join(value for value in strange if isinstance(value, bytes)),
        )

    def _holds_text(self, kind: type) -> bool:
        known = self._known_kinds.get(kind)
        if known is None:
            known = self._known_kinds[kind] = issubclass(kind, (str, bytes, PurePath))
        return known

    def held_by(self, owner: Any) -> Iterator[Holder]:
        if id(owner) in self._set_anew or owner is self._names:
            return
        for value in gc.get_referents(owner):
            if type(value) in NESTED and not gc.is_tracked(value):
                yield from self.held_by(value)  # what holds nothing but plain values is not listed by itself
            elif self._remembers(value):
                yield from self._places(owner, value)

    def _remembers(self, value: Any) -> bool:
        if not self._holds_text(type(value)):  # isinstance asks the value, and one that stands for a module imports it
            return False
        if isinstance(value, bytes):
            return any(os.fsencode(name) in value for name in self._names)
        return any(name in str(value) for name in self._names)

    def _places(self, owner: Any, value: Any) -> list[Holder]:
        if issubclass(type(owner), PurePath):
            return []  # the path itself is moved
        container = owner if type(owner) in CONTAINERS else getattr(owner, "__dict__", None)
        which = next((index for index, name in enumerate(self._names) if str(value).startswith(name)), None)
        places: list[Holder] = []
        if isinstance(container, CONTAINERS) and which is not None:
            rest = str(value)[len(self._names[which]) :]
            entries = container.items() if isinstance(container, dict) else enumerate(container)
            places = [(container, key, which, rest, type(value)) for key, one in entries if one is value]
        if not places:
            raise Unmovable(f"a {type(owner).__name__} keeps the path {value!r} from the import on")
        return places
