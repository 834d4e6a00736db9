"""Answers that name several things in one text: what stands between them, and whether they are meant as a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envops.authoring.dataset.values import LONGEST_ELEMENT, as_number

SEPARATORS = (";", "|", ",")
SOME_WITH_SEVERAL = 0.1
"""The share of texts that must name several things before one thing alone is taken for a list of one."""
MOST_RECOMBINE = 0.8
MOST_PARTS = 60
"""Different things that a few names can be; more are no names that come again."""


def separator_of(values: Sequence[Any]) -> str:
    """What stands between names that come again in other company, as in `a|b`, `b`, `a|c`; empty where nothing does."""
    texts = {value.strip() for value in values if isinstance(value, str)}
    if len(texts) < 3 or not all(isinstance(value, str) for value in values):
        return ""
    for separator in SEPARATORS:
        several = sum(separator in value for value in values)
        if several >= SOME_WITH_SEVERAL * len(values) and _recombine(texts, separator):
            return separator
    return ""


def _recombine(texts: set[str], separator: str) -> bool:
    """Whether most parts stand in more than one of the texts, and none is a clause of a sentence."""
    seen: dict[str, int] = {}
    for text in texts:
        for part in parts_of(text, separator):
            seen[part.casefold()] = seen.get(part.casefold(), 0) + 1
    if not seen or len(seen) > MOST_PARTS or any(len(part.split()) > LONGEST_ELEMENT for part in seen):
        return False
    return sum(count > 1 for count in seen.values()) >= MOST_RECOMBINE * len(seen) and not all(map(as_number, seen))


def parts_of(text: str, separator: str) -> list[str]:
    """The things that a text names."""
    return [part.strip() for part in text.split(separator) if part.strip()]


def always_two(values: Sequence[Any]) -> bool:
    """Whether every text is two parts around a comma that are no numbers, as dates, places and reversed names are."""
    texts = [value for value in values if isinstance(value, str) and not value.lstrip().startswith(("[", "("))]
    pairs = [parts_of(text, ",") for text in texts if not set(text) & set("\n;|")]
    numbers = all(as_number(part) is not None for pair in pairs for part in pair)
    return len(pairs) == len(values) and all(len(pair) == 2 for pair in pairs) and not numbers
