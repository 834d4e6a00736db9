"""What a process finds out about its imports without disturbing them."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from envops_worker import imported

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_modules_since_are_those_that_came_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(imported, "_last_before", [])
    (tmp_path / "came_later.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    imported.remember_what_is_imported()
    assert imported.modules_since() == []
    later = importlib.import_module("came_later")
    assert imported.modules_since() == [later]
    del sys.modules["came_later"]


def test_all_modules_are_looked_at_where_the_last_one_before_is_gone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(imported, "_last_before", [])
    monkeypatch.setitem(sys.modules, "soon_gone", ModuleType("soon_gone"))
    imported.remember_what_is_imported()
    del sys.modules["soon_gone"]
    assert imported.modules_since() == list(sys.modules.values())
