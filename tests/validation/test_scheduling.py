"""The next environment of the scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest
from envwright.observing.scheduling import Timing, in_order, next_to_start
from envwright.system import capacity
from envwright.system.capacity import available_memory, usable_cores

GB = 10**9
TIMINGS = {"long": Timing(90, 2 * GB), "short": Timing(5, GB), "middle": Timing(20, GB)}


def start(waiting: list[str], running: list[str], workers: int = 2, memory: int = 8 * GB) -> object:
    return next_to_start(waiting, running, TIMINGS, workers, memory)


def test_scheduler_starts_the_longest_first() -> None:
    assert in_order(TIMINGS) == ["long", "middle", "short"]
    assert start(["long", "middle", "short"], []) == "long"


def test_scheduler_respects_worker_count() -> None:
    assert start(["short"], ["long", "middle"]) is None
    assert start(["short"], ["long", "middle"], workers=3) == "short"


def test_scheduler_skips_environment_exceeding_free_memory() -> None:
    assert start(["long", "short"], ["middle"], memory=3 * GB) == "short"
    assert start(["long"], ["middle"], memory=3 * GB) is None


def test_scheduler_runs_oversized_environment_alone() -> None:
    assert start(["long"], [], memory=GB) == "long"


def test_container_limits_are_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = available_memory()
    monkeypatch.setattr(capacity, "CONTROL_GROUP", tmp_path)
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("1000000\n")
    assert usable_cores() == 1
    assert available_memory() == 2_000_000
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert usable_cores() >= 1
    assert available_memory() > free / 2
