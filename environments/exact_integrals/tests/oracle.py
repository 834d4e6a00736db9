"""A perfect player: reads the integral and applies Boole's rule, which is exact up to the fifth power."""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

WEIGHTS = (7, 32, 12, 32, 7)


def reply(task: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str:
    low, high, inside = re.search(
        r"\\int_\{(-?\d+)\}\^\{(-?\d+)\} \\left\((.*)\\right\)", messages[-1]["content"]
    ).groups()
    terms = re.findall(r"([+-]?)(\d*)(x?)(?:\^\{(\d)\})?", inside.replace(" ", ""))

    def at(x: Fraction) -> Fraction:
        return sum(
            (-1 if sign == "-" else 1) * int(factor or 1) * (x ** int(power or 1) if letter else 1)
            for sign, factor, letter, power in terms
            if factor or letter
        )

    width = Fraction(int(high) - int(low), 4)
    value = width * Fraction(2, 45) * sum(weight * at(int(low) + i * width) for i, weight in enumerate(WEIGHTS))
    sign, value = "-" if value < 0 else "", abs(value)
    text = str(value) if value.denominator == 1 else rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
    return rf"By Boole's rule, which is exact here: \boxed{{{sign}{text}}}"
