"""The choices that a prompt offers, where it can be seen that it offers any."""

from __future__ import annotations

import re
from functools import lru_cache

MOST = 12
_LABELLED = re.compile(r"(?:^|(?<=\s))\(?([A-Z]|\d{1,2})[).:]\s+(.+?)(?=\s+\(?(?:[A-Z]|\d{1,2})[).:]\s|\n|$)")
_LISTED = re.compile(
    r"\b(?:options|choices|labels|categories|classes|one of|choose (?:from|between)|pick from|either)\b(?:\s+are)?"
    r"\s*:?\s+([^\n.?]+)",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\s*,\s*(?:or\s+|and\s+)?|\s+or\s+|\s*/\s*|\s*\|\s*")


@lru_cache(maxsize=64)  # every policy asks about the same task
def offered_choices(prompt: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Labels ("A", "B") and texts of the choices that a prompt offers; both may be empty."""
    labelled = list(dict.fromkeys(_LABELLED.findall(prompt)))[:MOST]
    if len(labelled) > 1:
        return tuple(label for label, _ in labelled), tuple(text.strip() for _, text in labelled)
    for listed in _LISTED.findall(prompt):
        texts = [part.strip(" \"'`*<>[](){}") for part in _BETWEEN.split(listed)]
        if 1 < len(texts) <= MOST and all(0 < len(text) <= 40 for text in texts):
            return (), tuple(texts)
    return (), ()


def other_choices(answer: str, prompt: str) -> list[str]:
    """What the prompt offers beside the answer; empty where the answer is none of its choices."""
    wanted = answer.strip().strip("().").casefold()
    for offered in offered_choices(prompt):
        known = [choice.casefold() for choice in offered]
        if wanted in known:
            core = answer.strip().strip("().")
            return [answer.replace(core, choice) for choice in offered if choice.casefold() != wanted]
    return []
