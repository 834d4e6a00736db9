"""The rules, by gate. A module registers its rules when it is imported; `load` imports all."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages


def load() -> None:
    """Import every module of this folder, once."""
    for module in walk_packages(__path__, f"{__name__}."):
        import_module(module.name)
