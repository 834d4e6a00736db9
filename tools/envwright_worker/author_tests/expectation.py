"""The expectation of a case on one number.

Uses the standard library alone: the pytest plugin loads this file inside an environment's own virtual environment.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

TOLERANCE = 1e-6
"""The largest difference of two rewards that count as equal."""

FORMS = 'a number, ">= 0.9", "> 0", "< 0.5", "<= 1", "== 1", "!= 1" or "between 0.2 and 0.4"'
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_COMPARISON = re.compile(rf"(>=|<=|==|!=|>|<)?\s*({_NUMBER})")
_RANGE = re.compile(rf"between\s+({_NUMBER})\s+and\s+({_NUMBER})")

Operator = Literal["==", "!=", ">", ">=", "<", "<=", "between"]


@dataclass(frozen=True)
class Expectation:
    """The expected value of one number. Equality allows for `TOLERANCE`; ranges include both ends."""

    operator: Operator
    limit: float
    upper: float | None = None

    def holds(self, value: float | None) -> bool:
        """Whether the number is as expected; never true for a missing or undefined number."""
        if value is None or math.isnan(value):
            return False
        equal = math.isclose(value, self.limit, rel_tol=0.0, abs_tol=TOLERANCE)
        return {
            "==": equal,
            "!=": not equal,
            ">": value > self.limit and not equal,
            ">=": value > self.limit or equal,
            "<": value < self.limit and not equal,
            "<=": value < self.limit or equal,
            "between": self.limit - TOLERANCE <= value <= (self.upper or 0.0) + TOLERANCE,
        }[self.operator]


def parse_expectation(expectation: str | float) -> Expectation:
    """Read a number, or text such as `>= 0.9` or `between 0.2 and 0.4`.

    Raises `ValueError` for anything else, and for a range with swapped ends.
    """
    text = str(expectation).strip()
    if isinstance(expectation, bool) or not isinstance(expectation, str | int | float):
        raise ValueError(f"{expectation!r} is not an expectation: write {FORMS}")
    if comparison := _COMPARISON.fullmatch(text):
        operator: Any = comparison[1] or "=="
        return Expectation(operator, float(comparison[2]))
    if ends := _RANGE.fullmatch(text):
        low, high = float(ends[1]), float(ends[2])
        if low > high:
            raise ValueError(f"{text!r} is empty: write between {ends[2]} and {ends[1]}")
        return Expectation("between", low, high)
    raise ValueError(f"{text!r} is not an expectation: write {FORMS}")
