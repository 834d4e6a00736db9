"""Quantiles, intervals and chances, checked against published tables and values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from envwright.statistics.intervals import fold_that_decides, incomplete_beta, t_quantile, wilson_of
from envwright_worker.policies.policy import MANY


@pytest.mark.parametrize(
    ("degrees", "expected"), [(1, 12.7062), (2, 4.30265), (4, 2.77645), (9, 2.26216), (15, 2.13145), (120, 1.97993)]
)
def test_t_quantile_matches_the_tables(degrees, expected):
    assert t_quantile(0.95, degrees) == pytest.approx(expected, rel=1e-5)


def test_incomplete_beta_matches_known_values():
    assert incomplete_beta(2, 3, 0.4) == pytest.approx(0.5248)
    assert incomplete_beta(0.5, 0.5, 0.5) == pytest.approx(0.5)
    assert incomplete_beta(5, 1, 0.5) == pytest.approx(0.5**5)
    assert (incomplete_beta(2, 3, 0), incomplete_beta(2, 3, 1)) == (0, 1)


def test_wilson_matches_textbook_examples():
    """R. G. Newcombe, Statistics in Medicine 17, 1998, table I: 15 of 148 and 0 of 20."""
    found = wilson_of(15, 148, 0.95)
    assert (found.low, found.high) == (pytest.approx(0.0624, abs=1e-4), pytest.approx(0.1605, abs=1e-4))
    found = wilson_of(0, 20, 0.95)
    assert (found.low, found.high) == (0, pytest.approx(0.1611, abs=1e-4))


def test_check_with_suggested_rollouts_decides():
    estimate = wilson_of(10, 20, 0.95)
    fold = fold_that_decides(estimate, 0.3)
    assert fold is not None
    assert estimate.with_fold(fold * 1.001).low > 0.3
    assert estimate.with_fold(fold * 0.9).low < 0.3


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
