"""Paths of verifiers moved to the folders of the environment: from HOME and TMPDIR at its import, or named in /tmp.

Libraries read both variables when they are imported and store paths based on them in variables of their modules and in
the class named here; a test searches all objects for more.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import PurePath
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple

CLASS = ("verifiers.v1.runtimes.subprocess", "SubprocessRuntime")
NAMED = {
    "verifiers.v1.mcp.launch": ("serve_in_runtime", "/tmp/vf-port-"),
    "verifiers.v1.serve.pool": ("EnvServerPool.__init__", "/tmp"),
}
"""Module → the function that names a path, and the constant with it. There is no setting for either."""


class Holder(NamedTuple):
    """One object that stores a path below the folder."""

    owner: Any
    name: str
    rest: str
    """The path behind the folder's own."""
    kind: type


def paths_below(folder: str) -> list[Holder]:
    """All imported objects that store a path below a folder."""
    found = []
    for owner in (*sys.modules.values(), getattr(sys.modules.get(CLASS[0]), CLASS[1], None)):
        variables: Any = getattr(owner, "__dict__", None)
        for name, value in list(variables.items()) if type(variables) in (dict, MappingProxyType) else ():
            # A library's lazy proxy may import its module on any access beyond its type.
            if issubclass(type(value), (str, PurePath)):
                path = str(value)
                below = (one for one in (folder, os.path.realpath(folder)) if f"{path}/".startswith(f"{one}/"))
                if (one := next(below, None)) is not None:
                    found.append(Holder(owner, name, path[len(one) :], type(value)))
    return found


def move(holders: list[Holder], folder: str) -> None:
    """Move all stored paths to another folder."""
    for owner, name, rest, kind in holders:
        setattr(owner, name, kind(folder + rest))


def use_temporary_folder() -> None:
    """Change the constants of modules that have been imported; a version without them is left as it is."""
    for module, (place, constant) in NAMED.items():
        function: object = sys.modules.get(module)
        for name in place.split("."):
            function = getattr(function, name, None)
        if isinstance(function, FunctionType):
            moved = tempfile.gettempdir() + constant.removeprefix("/tmp")
            constants = (moved if co_const == constant else co_const for co_const in function.__code__.co_consts)
            function.__code__ = function.__code__.replace(co_consts=tuple(constants))
