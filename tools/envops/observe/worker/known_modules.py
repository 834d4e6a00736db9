"""Where the modules lie that importing verifiers needs, so that nobody has to look for them again.

Importing verifiers imports five thousand modules, and looking for them takes a tenth of that: folders are asked for
each under five endings, and its bytecode in several ways. A process that imported them all writes down which came
from the virtual environment, which nobody changes afterwards; the next ones go straight there.
Bytecode is still taken only where it belongs to the source, by time and length.
"""

from __future__ import annotations

import _imp
import json
import marshal
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType

from .bytecode import header_of, read, write_whole

FILE = "envops-modules-{generation}.json"
HEADER = 16
"""Bytes before the code: the magic number, flags, time and length of the source (PEP 552)."""


def write_known_modules(generation: str) -> None:
    """Write down which modules of this process lie in its virtual environment, unless that is known already."""
    file, site = _file(generation), _site_packages()
    if os.path.exists(file):  # noqa: PTH110
        return
    known = [name for name, module in list(sys.modules.items()) if _lies_where_it_is_named(site, name, module)]
    packages = {name for name in known if hasattr(sys.modules[name], "__path__")}
    text = json.dumps({"packages": sorted(packages), "modules": sorted(set(known) - packages)})
    with suppress(OSError):
        write_whole(file, text.encode())


@contextmanager
def known_modules(generation: str) -> Iterator[None]:
    """Find modules in the block where an import of this generation found them; where that is not known, as ever."""
    finder = None
    with suppress(OSError, ValueError, LookupError, TypeError):
        finder = _KnownFinder(_site_packages(), _file(generation))
        sys.meta_path.insert(sys.meta_path.index(PathFinder), finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _KnownFinder:
    """Finds modules of a virtual environment by their names alone, where no path was changed."""

    def __init__(self, site: str, file: str) -> None:
        """Read what is known. Raises `OSError`, `ValueError`, `LookupError` or `TypeError` where it cannot be read."""
        with open(file, "rb") as opened:  # noqa: PTH123
            known = json.load(opened)
        self._site = site
        self._packages, self._modules = set(known["packages"]), set(known["modules"])

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where the module lies, if that is known and its package lies where it lay then."""
        parent, _, last = name.rpartition(".")
        folder = f"{self._site}/{parent.replace('.', '/')}" if parent else self._site
        if path is not None and (type(path) is not list or path != [folder]):
            return None
        if name in self._modules:
            return self._spec(name, f"{folder}/{last}.py", f"{folder}/__pycache__/{last}", None)
        if name in self._packages:
            inside = f"{folder}/{last}"
            return self._spec(name, f"{inside}/__init__.py", f"{inside}/__pycache__/__init__", [inside])
        return None

    def _spec(self, name: str, file: str, bytecode: str, inside: list[str] | None) -> ModuleSpec | None:
        loader = _KnownLoader(name, file)
        spec = spec_from_file_location(name, file, loader=loader, submodule_search_locations=inside)
        if spec is not None:
            spec.cached = loader.bytecode = f"{bytecode}.{sys.implementation.cache_tag}.pyc"
        return spec


class _KnownLoader(SourceFileLoader):
    """Knows where the bytecode lies; once it has been asked for the code, it is like any other."""

    bytecode: str

    def get_code(self, fullname: str) -> CodeType | None:
        """The module's code."""
        bytecode = vars(self).pop("bytecode")
        self.__class__ = SourceFileLoader  # type: ignore[assignment]
        return _code_in(bytecode, self.path) or self.get_code(fullname)


def _code_in(bytecode: str, path: str) -> CodeType | None:
    """The code of a source as its bytecode has it; nothing where that is not there or not its own."""
    with suppress(OSError, ValueError, EOFError, TypeError, AttributeError):
        source, (data, _) = os.stat(path), read(bytecode)  # noqa: PTH116
        if data[:HEADER] == header_of(source):
            code = marshal.loads(memoryview(data)[HEADER:])
            if isinstance(code, CodeType):
                _imp._fix_co_filename(code, path)  # type: ignore[attr-defined]
                return code
    return None


def _lies_where_it_is_named(site: str, name: str, module: ModuleType) -> bool:
    spec = getattr(module, "__spec__", None)
    if spec is None or spec.name != name or type(spec.loader) is not SourceFileLoader:
        return False
    path = f"{site}/{name.replace('.', '/')}"
    return spec.origin in (f"{path}.py", f"{path}/__init__.py")


def _file(generation: str) -> str:
    return f"{sys.prefix}/{FILE.format(generation=generation)}"


def _site_packages() -> str:
    return f"{sys.prefix}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
