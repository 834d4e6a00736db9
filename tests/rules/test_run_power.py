"""The size of a step and the power of an evaluation, against enumeration and simulation."""

from __future__ import annotations

import itertools
import random
from statistics import NormalDist

import pytest
from envwright.statistics.clusters import paired_difference, variance_parts
from envwright.statistics.run_cost import (
    detectable_effect,
    informative_groups,
    never_learned_line,
    power_line,
    size_lines,
)


def test_informative_groups_equal_enumeration_of_every_group() -> None:
    tasks = [[0.0, 0.0, 0.0, 1.0], [1.0, 1.0], [0.0, 0.5, 1.0]]
    shares = []
    for task in tasks:
        drawn = list(itertools.product(task, repeat=3))
        shares.append(sum(len(set(group)) > 1 for group in drawn) / len(drawn))
    assert informative_groups(tasks, 3, 12) == pytest.approx(12 * sum(shares) / 3)


def test_detectable_effect_is_found_in_80_percent_of_simulations() -> None:
    drawn, tasks, rollouts = random.Random(4), 20, 4
    effect = detectable_effect(0.25, tasks, rollouts)
    spread = NormalDist(0, (0.25 / rollouts) ** 0.5)
    found = 0
    for _ in range(1000):
        then, now = ({str(task): spread.inv_cdf(drawn.random()) for task in range(tasks)} for _ in range(2))
        change = paired_difference({task: value + effect for task, value in now.items()}, then, 0.95)
        found += change is not None and change.low > 0
    assert 0.76 < found / 1000 < 0.85


def test_power_line_without_recording_is_unknown() -> None:
    assert "unknown" in power_line((), tasks=50, rollouts=1)
    assert "unknown" in "\n".join(size_lines((), batch=128, size=8, tokens=None))


def test_power_line_with_recording_reports_the_effect() -> None:
    clusters = [[0.0, 1.0]] * 10
    effect = detectable_effect(variance_parts(clusters).within, 50, 2)
    assert f"{effect:.3g} or more" in power_line(clusters, tasks=50, rollouts=2)


def test_never_learned_line_names_tries_and_the_bound_of_the_rate() -> None:
    line = never_learned_line({"hard": [0.0] * 4, "mixed": [0.0, 1.0], "unscored": []}, 0.0)
    high = 1.959964**2 / (4 + 1.959964**2)  # the upper end of Wilson's interval at 0 of 4, in closed form
    assert line is not None
    assert f"1 of 3 recorded tasks: hard (0 of 4, true rate up to {high:.0%})" in line
