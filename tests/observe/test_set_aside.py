"""What is imported ahead and set aside leaves no trace until it is brought back."""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import logging
import sys
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from envops.observe.worker import aside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BROUGHT = """
import importlib.machinery, json, logging, sys, warnings
import ground.deep

sys.meta_path.append(importlib.machinery.PathFinder())
sys.path.append("/brought")
warnings.filterwarnings("error", "brought")
logging.getLogger().addHandler(logging.NullHandler())
logging.getLogger("brought.along")
ground.used = True
ground.known["brought"] = True
"""


ABOVE = """
import builtins, brought, ground

brought.above = ground.above = builtins.above = True
ground.table["above"] = True
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that is imported already, and one that changes whatever an import can reach."""
    (tmp_path / "ground").mkdir()
    (tmp_path / "ground/__init__.py").write_text("known = {}\nused = False\n")
    (tmp_path / "ground/deep.py").write_text("")
    (tmp_path / "brought.py").write_text(BROUGHT)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(aside, "_kept", {})
    importlib.import_module("ground")
    yield tmp_path
    for name in ("ground", "ground.deep", "brought", "upper"):
        sys.modules.pop(name, None)


def traces() -> dict[str, Any]:
    """What an import leaves behind, as far as anybody can see it."""
    ground = sys.modules["ground"]
    return {
        "modules": dict(sys.modules),
        "path": list(sys.path),
        "finders": list(sys.meta_path),
        "folders": set(sys.path_importer_cache),
        "filters": list(warnings.filters),
        "handlers": list(logging.root.handlers),
        "loggers": set(logging.root.manager.loggerDict),
        "variables": set(vars(ground)),
        "values": (ground.used, dict(ground.known)),
    }


def brought() -> None:
    importlib.import_module("brought")


@pytest.mark.usefixtures("packages")
def test_nothing_is_seen_of_what_was_set_aside() -> None:
    before = traces()
    aside.Surroundings().set_aside("it", brought)
    after = traces()
    for what, seen in before.items():
        assert after[what] == seen, what


@pytest.mark.usefixtures("packages")
def test_what_cannot_be_imported_leaves_nothing() -> None:
    def fails() -> None:
        brought()
        raise RuntimeError

    before = traces()
    with pytest.raises(RuntimeError):
        aside.Surroundings().set_aside("it", fails)
    assert traces() == before
    assert not aside.bring_back("it")


def test_what_is_brought_back_is_not_loaded_again(packages: Path) -> None:
    aside.Surroundings().set_aside("it", brought)
    assert aside.bring_back("it")
    loaded = sys.modules["brought"]
    (packages / "brought.py").write_text("raise RuntimeError")
    brought()
    assert sys.modules["brought"] is loaded
    assert sys.modules["ground"].deep is sys.modules["ground.deep"]


@pytest.mark.usefixtures("packages")
def test_it_is_brought_back_once() -> None:
    aside.Surroundings().set_aside("it", brought)
    assert aside.bring_back("it")
    assert not aside.bring_back("it")


def test_what_stands_upon_something_else_comes_back_after_it_alone(packages: Path) -> None:
    (packages / "upper.py").write_text("import brought")
    for again in (False, True):
        surroundings = aside.Surroundings()
        surroundings.set_aside("it", brought)
        surroundings.set_aside("more", lambda: importlib.import_module("upper"), "it")
        assert "brought" not in sys.modules
        assert aside.bring_back("it" if again else "more") is again
    assert aside.bring_back("more")
    assert sys.modules["upper"].brought is sys.modules["brought"]


def test_what_stands_upon_something_else_leaves_no_trace_in_it(packages: Path) -> None:
    (packages / "brought.py").write_text(BROUGHT + "ground.table = {}\nshared = ground.__dict__\n")
    (packages / "upper.py").write_text(ABOVE)
    surroundings = aside.Surroundings()
    surroundings.set_aside("it", brought)
    surroundings.set_aside("more", lambda: importlib.import_module("upper"), "it")
    assert aside.bring_back("it")
    assert not hasattr(sys.modules["brought"], "above")
    assert not hasattr(sys.modules["ground"], "above")
    assert sys.modules["ground"].table == {}
    assert not hasattr(builtins, "above")
    assert aside.bring_back("more")
    assert sys.modules["brought"].above
    assert sys.modules["ground"].above
    assert vars(builtins).pop("above")


def another_of_that_name(_folder: Path) -> None:
    brought()


def another_file(folder: Path) -> None:
    nearer = folder / "nearer"
    nearer.mkdir()
    (nearer / "brought.py").write_text("")
    sys.path.insert(0, str(nearer))


def another_ground(_folder: Path) -> None:
    del sys.modules["ground"]
    importlib.import_module("ground")


@pytest.mark.parametrize("changed", [another_of_that_name, another_file, another_ground])
def test_nothing_is_brought_back_where_an_import_would_be_another(
    changed: Callable[[Path], None], packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    aside.Surroundings().set_aside("it", brought)
    changed(packages)
    before = dict(sys.modules)
    assert not aside.bring_back("it")
    assert sys.modules == before


@pytest.mark.usefixtures("packages")
def test_it_comes_back_whatever_became_of_modules_that_it_does_not_stand_upon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aloof", ModuleType("aloof"))
    aside.Surroundings().set_aside("tools", lambda: importlib.import_module("brought"))
    monkeypatch.setitem(sys.modules, "aloof", ModuleType("aloof"))
    assert aside.bring_back("tools")


def test_what_was_imported_by_its_name_is_stood_upon_too(packages: Path) -> None:
    (packages / "upper.py").write_text('import importlib\nimportlib.import_module("ground.deep")\n')
    importlib.import_module("ground.deep")
    aside.Surroundings().set_aside("tools", lambda: importlib.import_module("upper"))
    sys.modules["ground.deep"] = ModuleType("ground.deep")
    assert not aside.bring_back("tools")
