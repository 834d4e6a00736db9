"""Groups, pass@k and the estimates for other group sizes."""

from __future__ import annotations

import itertools
import random
from statistics import fmean

import pytest
from envwright.statistics.checks import chance_of_live_group, pass_at, predicted_live


def test_informative_group_chance_of_smaller_group_averages_all_draws():
    values = [0.0, 0.0, 0.0, 1.0, 1.0, 0.5]
    drawn = [len(set(group)) > 1 for group in itertools.combinations(values, 3)]
    assert chance_of_live_group(values, 3) == pytest.approx(fmean(drawn))


def test_group_estimate_is_unbiased():
    generator = random.Random(3)
    truth = 1 - 0.1**4 - 0.9**4
    draws = [[float(generator.random() < 0.1) for _ in range(8)] for _ in range(4000)]
    assert fmean(chance_of_live_group(each, 4) for each in draws) == pytest.approx(truth, abs=0.012)
    assert fmean(predicted_live(each, 4) for each in draws) < truth - 0.02


def test_predicted_informative_groups_equal_formula_for_two_values():
    assert predicted_live([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 8) == pytest.approx(1 - 0.25**8 - 0.75**8)


def test_pass_at_k_averages_every_draw_of_k():
    successes = [True, True, False, False, False]
    drawn = [any(group) for group in itertools.combinations(successes, 3)]
    assert pass_at(2, 5, 3) == pytest.approx(fmean(drawn))
    assert (pass_at(0, 5, 5), pass_at(5, 5, 1), pass_at(1, 5, 5)) == (0, 1, 1)
    with pytest.raises(ValueError, match="pass@9"):
        pass_at(1, 8, 9)
