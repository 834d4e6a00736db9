"""The module of an environment's package, found in its source before any wheel is built.

The build backend decides which files a wheel has, so `rules/schema/loading.py` compares this with the built one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from envwright.packages.pyproject import Pyproject

USUAL_ROOTS = ("", "src/")
_NEVER_SHIPPED = frozenset(
    {"setup", "conftest", "noxfile", "tasks", "fabfile", "tests", "test", "docs", "examples", "scripts", "benchmarks"}
)
_LOADED_BY_VERIFIERS = re.compile(rb"\bload_environment\b|Taskset\b|Harness\b")
_PATHS_OF_HATCH = ("packages", "only-include", "include")


@dataclass(frozen=True)
class ModulePlace:
    """A top-level module of a package."""

    name: str
    """The name under which Python imports it."""
    root: str = ""
    """The folder on the import path, relative to the package and with a slash at its end: `src/`."""
    is_folder: bool = True

    @property
    def file(self) -> str:
        """The file that is executed when the module is imported, relative to the package."""
        return f"{self.root}{self.name}/__init__.py" if self.is_folder else f"{self.root}{self.name}.py"

    def holds(self, file: str) -> bool:
        """Whether a file of the package is part of the module."""
        return file == self.file or (self.is_folder and file.startswith(f"{self.root}{self.name}/"))


def find_modules(folder: Path, files: Sequence[str], pyproject: Pyproject) -> list[ModulePlace]:
    """The module that verifiers loads: one, or several if it cannot be determined, or none.

    It is the one with the distribution's name, or the only one that the build backend's table names, that exists, or
    that defines an object for verifiers to load.
    """
    declared = list(_declared_paths(pyproject))
    roots = dict.fromkeys((*USUAL_ROOTS, *_declared_roots(pyproject), *(f"{_parent(path)}" for path in declared)))
    found = [place for root in roots for place in _modules_below(root, files)]
    name = canonicalize_name(str(pyproject.table("project").get("name", "")))
    named = [place for place in found if canonicalize_name(place.name) == name]
    if named:
        return [place for place in named if place.root == named[0].root]
    shipped = [place for place in found if place.name in declared or f"{place.root}{place.name}" in declared]
    remaining = shipped or found
    if len(remaining) > 1:
        loaded = [place for place in remaining if _has_what_is_loaded(folder / place.file)]
        remaining = loaded or remaining
    return remaining


def _modules_below(root: str, files: Iterable[str]) -> Iterator[ModulePlace]:
    for file in files:
        if not file.startswith(root) or not file.endswith(".py"):
            continue
        first, *rest = file.removeprefix(root).split("/")
        name = first.removesuffix(".py")
        if not name.isidentifier() or name.startswith("__") or name in _NEVER_SHIPPED:
            continue
        if not rest:
            yield ModulePlace(name, root, is_folder=False)
        elif rest == ["__init__.py"]:
            yield ModulePlace(name, root)


def _has_what_is_loaded(path: Path) -> bool:
    try:
        return bool(_LOADED_BY_VERIFIERS.search(path.read_bytes()))
    except OSError:
        return False


def _parent(path: str) -> str:
    return path[: path.rfind("/") + 1]


def _declared_paths(pyproject: Pyproject) -> Iterator[str]:
    """The modules that the build backend's own table ships: paths and module names, without `.py`."""
    for path in _declared_texts(pyproject):
        yield path.replace("\\", "/").strip().strip("/").removeprefix("./").rstrip("*").rstrip("/").removesuffix(".py")


def _declared_texts(pyproject: Pyproject) -> Iterator[str]:
    hatch = (pyproject.table("tool", "hatch", "build"), pyproject.table("tool", "hatch", "build", "targets", "wheel"))
    for table in hatch:
        for key in _PATHS_OF_HATCH:
            yield from _texts(table.get(key))
        yield from _texts(table.get("force-include"))
    setuptools = pyproject.table("tool", "setuptools")
    yield from _texts(setuptools.get("py-modules"))
    yield from _texts(setuptools.get("packages"))
    for each in _tables(pyproject.table("tool", "poetry").get("packages")):
        yield "/".join(filter(None, (str(each.get("from", "")), str(each.get("include", "")))))
    yield from _texts(pyproject.table("tool", "uv", "build-backend").get("module-name"))
    yield from _texts(pyproject.table("tool", "flit", "module").get("name"))


def _declared_roots(pyproject: Pyproject) -> Iterator[str]:
    """The folders that the build backend's own table puts on the import path, each with a slash at its end."""
    wheres = (
        pyproject.table("tool", "setuptools", "packages", "find").get("where"),
        pyproject.table("tool", "setuptools").get("package-dir"),
        pyproject.table("tool", "uv", "build-backend").get("module-root"),
    )
    for text in (text for where in wheres for text in _texts(where)):
        path = text.strip("./")
        yield f"{path}/" if path else ""


def _texts(value: Any) -> list[str]:
    """A text, the texts of a list, or the values of a table."""
    if isinstance(value, dict):
        value = list(value.values())
    found = value if isinstance(value, list) else [value]
    return [text for text in found if isinstance(text, str)]


def _tables(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
