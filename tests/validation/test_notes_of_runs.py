"""The notes of a run: why environments are observed again, and how their processes ran."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from envwright.facts.observed import Facts, StartMode
from envwright.observing import runner
from envwright.observing.store.settings import StoreSettings
from envwright.observing.verdicts import ValidationRequest
from envwright.system.workspace import Workspace
from recorded_requests import ENTRY, PACKAGE, REQUEST


class Noting:
    """A run's progress that keeps its notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def __getattr__(self, _: str) -> Any:
        return lambda *_: None


class Observing:
    """Replaces an observer: the facts have a way of starting."""

    started = StartMode()

    def __init__(self, *_: Any) -> None: ...

    def observe(self, *_: Any) -> Facts:
        return Facts("sums", "k", "d", started=self.started)


@pytest.fixture
def request_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A request to validate environments with these names."""
    monkeypatch.setattr(runner, "Observer", Observing)
    monkeypatch.setattr(runner, "_prepare", lambda *_: None)
    monkeypatch.setattr(runner, "_import_late", lambda: None)
    monkeypatch.setattr(runner, "remembered_result", lambda *_: None)

    def of(*names: str) -> ValidationRequest:
        entries = {name: replace(ENTRY, name=name) for name in names}
        repository: Any = SimpleNamespace(
            registry=SimpleNamespace(environments=entries), packages=dict.fromkeys(names, PACKAGE), broken={}
        )
        request: Any = SimpleNamespace(
            repository=repository, workspace=Workspace(tmp_path), observation=replace(REQUEST, evaluate=False)
        )
        return request  # type: ignore[no-any-return]

    return of


def notes_of(request: ValidationRequest, store: StoreSettings | None = None) -> list[str]:
    progress: Any = Noting()
    templates: Any = object()
    runner.run_all(request, list(request.repository.packages), 1, progress, threading.Event(), store, templates)
    return progress.notes  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("parts", "noted"),
    [
        ({"sums": "the lock"}, ["sums: observed again, because the lock changed"]),
        (
            {"sums": "the lock", "words": "its request", "codes": "the lock", "new": ""},
            [
                "2 environments: observed again, because the lock changed",
                "words: observed again, because its request changed",
            ],
        ),
        ({"sums": ""}, []),
    ],
    ids=["one", "several", "a changed package"],
)
def test_changed_part_is_noted_once_for_each_reason(
    request_of: Any, monkeypatch: pytest.MonkeyPatch, parts: dict[str, str], noted: list[str]
) -> None:
    monkeypatch.setattr(runner, "changed_part", lambda entry, *_: parts[entry.name])
    monkeypatch.setattr(Observing, "started", StartMode())
    assert notes_of(request_of(*parts)) == noted


@pytest.mark.parametrize(
    ("started", "noted"),
    [
        (StartMode(reason="it starts threads"), ["sums: observed in a fresh process because it starts threads"]),
        (StartMode("forked", "its lock differs"), ["sums: slower than others because its lock differs"]),
        (StartMode(unconfined="the kernel forbids it"), ["sums: ran without a sandbox because the kernel forbids it"]),
        (
            StartMode(reason="it starts threads", unconfined="the kernel forbids it"),
            [
                "sums: observed in a fresh process because it starts threads",
                "sums: ran without a sandbox because the kernel forbids it",
            ],
        ),
        (StartMode(), []),
    ],
    ids=["fresh", "forked", "no sandbox", "both", "as usual"],
)
def test_unusual_start_of_processes_is_noted(
    request_of: Any, monkeypatch: pytest.MonkeyPatch, started: StartMode, noted: list[str]
) -> None:
    monkeypatch.setattr(runner, "changed_part", lambda *_: "")
    monkeypatch.setattr(Observing, "started", started)
    assert notes_of(request_of("sums")) == noted


def test_store_is_searched_for_one_environment_in_the_singular(
    request_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(runner, "changed_part", lambda *_: "")
    monkeypatch.setattr(Observing, "started", StartMode())
    store = StoreSettings(str(tmp_path / "store"), {})
    assert notes_of(request_of("sums"), store)[0].endswith(": looking for 1 environment")
