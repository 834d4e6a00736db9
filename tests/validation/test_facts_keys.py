"""The key of facts changes exactly where the observation does: every setting is changed in turn."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from envops.facts.observed import Started
from envops.repository.package import CaseDeclaration, Lock, Package
from envops.repository.registry import DistributionGate, EnvironmentEntry, Gates, SmokeGate
from envops.repository.workspace import Workspace
from envops.validation import observation
from envops.validation.observation import observe_unpacked
from envops.validation.remembering import facts_key
from envops.validation.requests import Wish
from envops.validation.venv import VirtualEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Package(
    "sums",
    Path("/nowhere/sums"),
    "sums",
    "0.1.0",
    "",
    (),
    "",
    (),
    (),
    "",
    "v1",
    None,
    cases=(CaseDeclaration("right", 1, "4", {"reward": "1"}, 1),),
    digest="d",
    lock=Lock("l", "i", {}),
)
ENTRY = EnvironmentEntry("sums", args={"split": "train"}, secrets=("SUMS_API_KEY",))
WISH = Wish()
OTHER_VALUES: dict[str, dict[str, Any]] = {
    "entry": {
        "name": None,
        "visibility": "PUBLIC",
        "owner": "team",
        "owners": ("@a/b",),
        "args": {"split": "test"},
        "probe_args": {"tasks": 3},
        "secrets": ("SUMS_API_KEY", "OTHER_KEY"),
        "publish_evals": True,
        "gates": None,
        "ignore": {"RWD001": "a reason"},
        "line": 7,
    },
    "smoke": {"tasks": 3, "rollouts": 4, "max_concurrent": 1, "timeout_s": 1.0},
    "distribution": {
        "min_rollouts": 500,
        "min_mean": 0.3,
        "max_mean": 0.4,
        "min_std": 0.2,
        "min_format": 0.1,
        "min_live_groups": 0.1,
        "group_size": 16,
        "confidence": 0.5,
        "tasks": 3,
        "max_truncated": 0.5,
        "max_timeouts": 0.5,
        "max_errors": 0.5,
        "max_drop": 0.5,
    },
    "wish": {
        "allow_network": True,
        "use_cache": False,
        "evaluate": False,
        "score": False,
        "only_replies": True,
        "harness": "other",
        "evaluations": ("smoke",),
        "tasks": 2,
        "rollouts": 2,
    },
}
"""Another value for every setting there is; `None` where the setting is no single value."""
NOT_SEEN = {
    "entry": {"visibility", "owner", "owners", "probe_args", "publish_evals", "ignore", "line"},
    "smoke": set(),
    "distribution": {
        *("min_mean", "max_mean", "min_std", "min_format", "min_live_groups", "confidence"),
        *("max_truncated", "max_timeouts", "max_errors", "max_drop"),
    },
    "wish": {"use_cache"},
}
"""Settings that only rules, releases or the cache read."""
SETTINGS = [(group, name) for group, values in OTHER_VALUES.items() for name in values if values[name] is not None]


class Recorded:
    """Stands for the processes of an environment, and writes down what they are given and asked."""

    heard: list[Any]
    """Set by each test."""
    peak_memory = 0
    started = Started()

    def __init__(self, _venv: Any, _package: Any, _overlay: Any, settings: Any, confinement: Any, *_rest: Any) -> None:
        self.heard.append(("processes", settings, confinement))

    def __enter__(self) -> Recorded:
        return self

    def __exit__(self, *_: object) -> None: ...

    def load(self) -> Iterator[tuple[str, Iterator[tuple[str, Any]]]]:
        described = {"generation": "v1", "environment": "Sums", "conversational": False, "functions": [], "tools": []}
        versions = {"verifiers": "0.4.0", "python": "3.11", "import_seconds": 0.0, "load_seconds": 0.0, "datasets": []}
        yield "load", iter([("description", described | versions)])
        tasks = [{"index": index, "prompt": [], "answer": "4", "data": {}} for index in range(40)]
        yield "tasks", iter([("task", task) for task in tasks])

    @contextmanager
    def job(self) -> Iterator[Recorded]:
        yield self

    def end(self) -> None: ...

    def request(self, operation: str, within: float, **parameters: Any) -> Iterator[tuple[str, Any]]:
        self.heard.append((operation, within, parameters))
        return iter(())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """What the processes of an environment are given and asked, in an order of its own."""
    monkeypatch.setattr(observation, "environment_processes", Recorded)
    monkeypatch.setattr(observation, "search_toolbox", lambda *_: VirtualEnvironmentStub())
    monkeypatch.setattr(observation, "seat_harness", lambda *_, **__: None)
    monkeypatch.setenv("SUMS_API_KEY", "a")
    monkeypatch.setenv("OTHER_KEY", "b")

    def ask(entry: EnvironmentEntry, wish: Wish) -> list[str]:
        Recorded.heard = []
        templates: Any = None
        venv = VirtualEnvironment(tmp_path)
        arguments = (entry, PACKAGE, tmp_path, Workspace(tmp_path), wish, threading.Event(), templates, venv)
        facts = observe_unpacked(*arguments)
        assert facts.failures == {}
        return sorted(map(repr, Recorded.heard))

    return ask


class VirtualEnvironmentStub:
    """Where hypothesis would be."""

    site_packages = Path("/nowhere/search")
    unicode = Path("/nowhere/unicode")


def changed(group: str, name: str) -> tuple[EnvironmentEntry, Wish]:
    """Entry and wish with one setting changed."""
    value = {name: OTHER_VALUES[group][name]}
    gates = {
        "smoke": lambda: Gates(smoke=replace(SmokeGate(), **value)),
        "distribution": lambda: Gates(distribution=replace(DistributionGate(), **value)),
    }
    if group in gates:
        return replace(ENTRY, gates=gates[group]()), WISH
    return (replace(ENTRY, **value), WISH) if group == "entry" else (ENTRY, replace(WISH, **value))


@pytest.mark.parametrize(
    ("group", "kind"),
    [("entry", EnvironmentEntry), ("smoke", SmokeGate), ("distribution", DistributionGate), ("wish", Wish)],
)
def test_settings_of_each_kind_are_all_known_here(group: str, kind: Any) -> None:
    assert set(OTHER_VALUES[group]) == {one.name for one in fields(kind)}


@pytest.mark.parametrize(("group", "name"), SETTINGS)
def test_a_setting_changes_the_key_exactly_where_it_changes_what_is_asked(group: str, name: str, asked: Any) -> None:
    entry, wish = changed(group, name)
    same_requests = asked(entry, wish) == asked(ENTRY, WISH)
    same_key = facts_key(entry, PACKAGE, wish) == facts_key(ENTRY, PACKAGE, WISH)
    assert same_requests == (name in NOT_SEEN[group])
    assert same_key == same_requests


def test_a_threshold_that_asks_for_no_more_rollouts_keeps_the_key(asked: Any) -> None:
    entry = replace(ENTRY, gates=Gates(distribution=DistributionGate(min_rollouts=21)))
    assert asked(entry, WISH) == asked(ENTRY, WISH)
    assert facts_key(entry, PACKAGE, WISH) == facts_key(ENTRY, PACKAGE, WISH)
