"""Baselines: tasks are matched by content, and a damaged file is distinguished from a sound one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from envwright.statistics.baseline import key_of, means_now, read_baseline
from subjects import FACTS, subject

SOUND = {"version": 1, "policy": "blend", "digest": "sha256:then", "tasks": {"ab": {"count": 8, "mean": 0.5}}}


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"tasks": {"ab": {"count": 0, "mean": 0.5}}},
        {"tasks": {"ab": {"count": 8, "mean": float("nan")}}},
        {"tasks": {"ab": {"count": 8}}},
        {"tasks": [1]},
        {"tasks": {"ab": {"count": "many", "mean": 0.5}}},
    ],
)
def test_damaged_baseline_is_refused(change):
    with pytest.raises(ValueError, match=r".+"):
        read_baseline({**SOUND, **change})


def test_task_key_does_not_depend_on_position():
    first = FACTS.tasks[0]
    moved = replace(FACTS, tasks=(*FACTS.tasks[1:], replace(first, index=99)))
    assert key_of(99, moved) == key_of(0, FACTS)
    assert key_of(1234, FACTS) is None
    assert key_of("ab", FACTS) == "ab"


def test_means_now_are_keyed_by_task():
    each = subject()
    assert len(means_now(each.samples[0], each.facts)) == 10
