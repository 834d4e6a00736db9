"""What the integrals and the reading of numbers promise."""

from fractions import Fraction
from itertools import islice

import pytest
from exact_integrals.integrals import Integral, integrals, latex, polynomial
from exact_integrals.taskset import exact_number, final_box


def test_the_same_seed_makes_the_same_integrals():
    assert list(islice(integrals(3), 100)) == list(islice(integrals(3), 100))


def test_no_integral_is_made_twice():
    made = list(islice(integrals(0), 3000))
    assert len(set(made)) == len(made)


def test_most_values_are_no_whole_numbers():
    assert sum(made.value().denominator > 1 for made in islice(integrals(0), 500)) > 200


def test_the_value_of_an_integral():
    assert Integral((4, -1, 3), 0, 2).value() == 14
    assert Integral((0, 0, 1), 0, 1).value() == Fraction(1, 3)


@pytest.mark.parametrize(
    ("coefficients", "text"),
    [((4, -1, 3), "3x^{2} - x + 4"), ((0, 1), "x"), ((-1, -1), "-x - 1"), ((0, 0, -2), "-2x^{2}")],
)
def test_how_a_polynomial_is_written(coefficients: tuple[int, ...], text: str):
    assert polynomial(coefficients) == text


@pytest.mark.parametrize("value", [Fraction(5), Fraction(-5), Fraction(7, 3), Fraction(-7, 3)])
def test_what_is_written_is_read_again(value: Fraction):
    assert exact_number(latex(value)) == value


@pytest.mark.parametrize("text", [r"\frac{7}{3}", r"\dfrac{14}{6}", r"\tfrac{7}{3}", "7/3"])
def test_ways_to_write_a_fraction(text: str):
    assert exact_number(text) == Fraction(7, 3)


@pytest.mark.parametrize(
    "text", ["", "2.33", r"\frac{7}{0}", r"\frac73", r"5\frac{1}{2}", "x", "--1", r"-\frac{-7}{3}", "٧", "9" * 10]
)
def test_what_is_no_exact_number(text: str):
    assert exact_number(text) is None


@pytest.mark.parametrize(
    "reply", ["", "5", r"\boxed{5", r"\boxed{5} \boxed{5}", r"<think>\boxed{5}", r"\boxed{5}\boxed"]
)
def test_replies_without_one_box(reply: str):
    assert final_box(reply) == ""
