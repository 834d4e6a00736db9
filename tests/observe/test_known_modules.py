"""Where modules lie is known from an import before, and nothing else is different."""

from __future__ import annotations

import importlib
import json
import os
import py_compile
import shutil
import sys
import threading
from importlib.machinery import PathFinder
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from envops.observe.fork_server import ForkServer
from envops.observe.venv import venv_for
from envops.observe.worker.known_modules import known_modules, write_known_modules
from sample_packages import EXEMPLARS, REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from envops.observe.workspace import Workspace

NAMES = ("grounds", "grounds.inner", "grounds.later", "alone")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The packages of a virtual environment, all imported once, compiled and forgotten."""
    folder = tmp_path / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    (folder / "grounds").mkdir(parents=True)
    (folder / "grounds/__init__.py").write_text("from . import inner\n")
    (folder / "grounds/inner.py").write_text("VALUE = 1\n")
    (folder / "grounds/later.py").write_text("")
    (folder / "alone.py").write_text("import grounds\n\ndef fails():\n    raise KeyError\n")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.syspath_prepend(folder)
    for path in folder.rglob("*.py"):
        py_compile.compile(str(path))
    importlib.import_module("alone")
    write_known_modules("v1")
    forget()
    yield folder
    forget()


def forget() -> None:
    for name in NAMES:
        sys.modules.pop(name, None)


def imported(generation: str = "v1") -> ModuleType:
    with known_modules(generation):
        return importlib.import_module("alone")


def of(module: ModuleType) -> dict[str, Any]:
    """What a module says of itself."""
    spec = module.__spec__
    assert spec is not None
    about = {name: getattr(module, name, None) for name in ("__file__", "__cached__", "__path__", "__package__")}
    known = (spec.name, spec.origin, spec.cached, spec.submodule_search_locations, spec.has_location, spec.parent)
    return {**about, "spec": known, "loader": (type(spec.loader), vars(spec.loader))}


@pytest.mark.usefixtures("site")
def test_nobody_looks_for_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PathFinder, "find_spec", lambda *_: None)
    assert imported().grounds.inner.VALUE == 1


@pytest.mark.usefixtures("site")
def test_a_module_says_of_itself_what_it_ever_did() -> None:
    imported()
    known = {name: of(sys.modules[name]) for name in ("alone", "grounds", "grounds.inner")}
    forget()
    importlib.import_module("alone")
    assert known == {name: of(sys.modules[name]) for name in known}


def test_a_source_that_changed_is_run_as_it_is_now(site: Path) -> None:
    (site / "grounds/inner.py").write_text("VALUE = 'changed'\n")
    assert imported().grounds.inner.VALUE == "changed"


def test_bytecode_that_is_damaged_is_made_anew(site: Path) -> None:
    bytecode = Path(cache_from_source(str(site / "grounds/inner.py")))
    bytecode.write_bytes(bytecode.read_bytes()[:20])
    with pytest.raises(EOFError):  # as Python has it
        imported()
    bytecode.unlink()
    assert imported().grounds.inner.VALUE == 1


def test_code_tells_the_file_that_it_was_imported_from(site: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere/alone.py"
    elsewhere.parent.mkdir()
    shutil.copy2(site / "alone.py", elsewhere)
    py_compile.compile(str(elsewhere), cache_from_source(str(site / "alone.py")))
    assert imported().fails.__code__.co_filename == str(site / "alone.py")


@pytest.mark.usefixtures("site")
def test_what_is_not_known_is_found_as_ever() -> None:
    with known_modules("v1"):
        importlib.import_module("alone")
        assert importlib.import_module("grounds.later").__file__


def test_a_package_that_looks_elsewhere_is_asked(site: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "inner.py").write_text("VALUE = 'other'\n")
    (site / "grounds/__init__.py").write_text(f"__path__.insert(0, {str(other)!r})\nfrom . import inner\n")
    assert imported().grounds.inner.VALUE == "other"


@pytest.mark.parametrize("text", ["", "[]", '{"packages": 1}', '{"packages": [[]], "modules": []}'])
def test_a_damaged_list_is_no_list(text: str, tmp_path: Path, site: Path) -> None:
    (tmp_path / "envops-modules-v1.json").write_text(text)
    assert imported().__file__ == str(site / "alone.py")


@pytest.mark.usefixtures("site")
def test_nothing_stays_behind() -> None:
    before = list(sys.meta_path)
    imported()
    imported("v0")
    assert sys.meta_path == before


@pytest.mark.worker
def test_a_server_writes_down_what_importing_verifiers_needs(workspace: Workspace) -> None:
    lock = REPOSITORY / "environments" / EXEMPLARS["v0"] / "requirements.lock"
    venv = venv_for(lock, workspace, threading.Event())
    written = venv.folder / "envops-modules-v0.json"
    written.unlink(missing_ok=True)
    with workspace.scratch() as scratch, ForkServer(venv, "v0", 0, scratch) as server:
        assert server.refusal(threading.Event()) == ""
    known = json.loads(written.read_text())
    assert {"verifiers", "verifiers.legacy", "openai"} <= set(known["packages"])
    assert not {"pytest", "envops_worker", "json"} & {*known["packages"], *known["modules"]}


@pytest.mark.parametrize("time", [-1, 2**32 + 5])
def test_a_source_of_another_century_is_imported(site: Path, time: int) -> None:
    os.utime(site / "alone.py", (time, time))
    assert imported().__file__ == str(site / "alone.py")
