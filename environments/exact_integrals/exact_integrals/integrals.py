"""Definite integrals of polynomials with whole coefficients between whole bounds."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from random import Random
from typing import NamedTuple


class Integral(NamedTuple):
    """The coefficients begin with the constant one."""

    coefficients: tuple[int, ...]
    low: int
    high: int

    def latex(self) -> str:
        return rf"\int_{{{self.low}}}^{{{self.high}}} \left({polynomial(self.coefficients)}\right) \, dx"

    def value(self) -> Fraction:
        parts = (
            Fraction(factor * (self.high ** (power + 1) - self.low ** (power + 1)), power + 1)
            for power, factor in enumerate(self.coefficients)
        )
        return sum(parts, Fraction(0))


def polynomial(coefficients: Sequence[int]) -> str:
    """Written from the highest power down, as in 3x^{2} - x + 4."""
    text = ""
    for power, factor in reversed(list(enumerate(coefficients))):
        if factor:
            sign = (" - " if factor < 0 else " + ") if text else ("-" if factor < 0 else "")
            number = "" if abs(factor) == 1 and power else str(abs(factor))
            text += sign + number + ("", "x", f"x^{{{power}}}")[min(power, 2)]
    return text


def integrals(seed: int) -> Iterator[Integral]:
    """Endless integrals of powers one to four, no two alike, and none of them zero."""
    rng, told = Random(seed), set[Integral]()
    while True:
        degree, low = rng.randint(1, 4), rng.randint(-3, 3)
        factors = [rng.randint(-6, 6) for _ in range(degree)]
        made = Integral((*factors, rng.choice((-3, -2, -1, 1, 2, 3, 4))), low, low + rng.randint(1, 4))
        if made not in told and made.value():
            told.add(made)
            yield made


def latex(value: Fraction) -> str:
    """A number in lowest terms: -\\frac{7}{3}, or 5."""
    if value.denominator == 1:
        return str(value)
    return rf"{'-' if value < 0 else ''}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"
