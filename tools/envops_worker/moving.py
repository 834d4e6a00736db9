"""Paths that importing verifiers derived from HOME and TMPDIR, set anew in the folder of each environment.

Libraries read both variables when they are imported and keep what follows from them. They keep it in variables of
their modules and in the few other places that are listed here; a test searches all objects for more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, NamedTuple

CLASS_ATTRIBUTES = (("verifiers.v1.runtimes.subprocess", "SubprocessRuntime", "scripts_dir"),)
"""Module, class and attribute of the paths that are kept elsewhere than in a module's variables."""


class Holder(NamedTuple):
    """One thing that keeps a path below the folder."""

    owner: Any
    name: str
    rest: str
    """The path behind the folder's own."""
    kind: type


def paths_below(folder: str) -> list[Holder]:
    """Everything imported so far that keeps a path below a folder."""
    names = {folder, os.path.realpath(folder)}
    return [
        Holder(owner, name, str(value)[len(below) :], type(value))
        for owner, name, value in (*_module_variables(), *_class_attributes())
        for below in names
        if str(value) == below or str(value).startswith(f"{below}/")
    ]


def move(holders: list[Holder], folder: str) -> None:
    """Let each keep the same path below another folder."""
    for owner, name, rest, kind in holders:
        setattr(owner, name, kind(folder + rest))


def _module_variables() -> Iterator[tuple[Any, str, Any]]:
    for module in list(sys.modules.values()):
        variables = getattr(module, "__dict__", None)
        for name, value in list(variables.items()) if type(variables) is dict else ():
            # A proxy of a library may import the module behind it when it is asked for more than its type.
            if issubclass(type(value), (str, PurePath)):
                yield module, name, value


def _class_attributes() -> Iterator[tuple[Any, str, Any]]:
    for module, kind, name in CLASS_ATTRIBUTES:
        owner = getattr(sys.modules.get(module), kind, None)
        if owner is not None and name in vars(owner):
            yield owner, name, vars(owner)[name]
