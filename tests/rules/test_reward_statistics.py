"""Statistics, checked against published values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from envwright_worker.policies.policy import MANY


def test_default_tasks_show_a_defect_of_a_tenth_with_95_percent() -> None:
    assert 1 - (1 - 0.1) ** MANY > 0.95


def test_chance_table_in_docs_matches_computation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "rewards.md").read_text(encoding="utf-8")
    columns = [int(tasks) for tasks in re.findall(r"(\d+) tasks", re.findall(r"^\| affects .*", page, re.MULTILINE)[0])]
    rows = re.findall(r"^\| 1 in (\d+) \|(.*)\|$", page, re.MULTILINE)
    assert MANY in columns
    assert len(rows) > 4
    for one_in, cells in rows:
        computed = [100 * (1 - (1 - 1 / int(one_in)) ** tasks) for tasks in columns]
        written = [float(cell.strip(" %")) for cell in cells.split("|")]
        assert written == pytest.approx(computed, abs=0.06)
