"""The TOML of declarations: plain data, whose numbers can be compared and printed."""

from __future__ import annotations

import re
import sys
import tomllib
from typing import Any

from envwright.declarations.problem import DeclarationError, Problem

MOST_DIGITS = 400
"""Of a number, also in a version: Python converts no more than 4,300 digits, and a float has 309."""
_LONG_NUMBER = re.compile(rf"(?<!\d)\d{{{MOST_DIGITS}}}")


def parse_toml(text: str, file: str, *, quotes: bool = True) -> dict[str, Any]:
    """The data of a TOML text; `file` is what problems name. With `quotes` they show the line that is wrong.

    Raises `DeclarationError` where it is not TOML, or has a number that is too large.
    """
    if long := long_number(text):
        line = text.count("\n", 0, long.start()) + 1
        raise DeclarationError([Problem(file, line, "has a number that is too large", found=f"{long[0][:40]}…")])
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DeclarationError([_syntax_problem(str(error), text, file, quotes=quotes)]) from None
    except (RecursionError, ValueError) as error:
        raise DeclarationError([Problem(file, None, f"is not valid TOML: {error}")]) from None
    if place := _too_large(data):
        raise DeclarationError([Problem(file, None, "is an integer that is too large", place)])
    return data


def long_number(text: str) -> re.Match[str] | None:
    """The first number of so many digits that it cannot be read."""
    return _LONG_NUMBER.search(text)


def is_too_large(value: Any) -> bool:
    """Whether a value is an integer beyond every float, which cannot be compared with one or printed."""
    return isinstance(value, int) and abs(value) > sys.float_info.max


def _too_large(data: dict[str, Any]) -> str:
    """The place of an integer that is too large; empty where there is none."""
    waiting: list[tuple[str, Any]] = [*data.items()]
    while waiting:
        place, value = waiting.pop()
        if is_too_large(value):
            return place
        if isinstance(value, dict):
            waiting += [(f"{place}.{key}", part) for key, part in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{place}[{index}]", part) for index, part in enumerate(value)]
    return ""


def _syntax_problem(message: str, text: str, file: str, *, quotes: bool) -> Problem:
    what, _, where = message.rpartition(" (at ")
    numbers = re.match(r"line (\d+), column \d+\)", where)
    line = int(numbers[1]) if numbers else text.count("\n") + 1
    rows = text.splitlines()
    shown = rows[line - 1].strip()[:120] if quotes and line <= len(rows) else ""
    return Problem(file, line, f"is not TOML: {what or message}", found=shown)
