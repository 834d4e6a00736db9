"""The choices of a multiple-choice question: in a column, in one column each, or in the question's text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from envops.authoring.dataset.columns import value_at
from envops.authoring.dataset.roles import Roles, Row
from envops.authoring.dataset.values import as_list, flagged, is_missing, text_of

_IN_TEXT = re.compile(r"(?:^|(?<=\s))\(?([A-J])[).:]\s+(.+?)(?=\s+\(?[A-J][).:]\s|\n|$)")


def options_of(row: Row, roles: Roles) -> list[str]:
    """The texts of a row's choices in their order; empty where no column has them."""
    if roles.wrong_choices:
        answers = [value_at(row, roles.answer), *(row.get(name) for name in roles.wrong_choices)]
        return sorted(text_of(answer) for answer in answers if not is_missing(answer))  # an order that tells nothing
    if len(roles.choices) == 1:
        marked = flagged(row.get(roles.choices[0])) if roles.answer in roles.choices else None
        return sorted(marked[0]) if marked else _listed(row.get(roles.choices[0]))
    return [text_of(row[name]) for name in roles.choices if not is_missing(row.get(name))]


def _listed(value: Any) -> list[str]:
    """Texts of choices from a list, a mapping from letters, or a record of texts and labels."""
    if isinstance(value, Mapping):
        if isinstance(value.get("text"), list):
            return [text_of(text) for text in value["text"]]
        return [text_of(text) for _, text in sorted(value.items())]
    if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        return [text_of(one.get("text") or one.get("content") or next(iter(one.values()))) for one in value]
    found = as_list(value) or []
    return [re.sub(r"^\(?[A-Ja-j][).:]\s+", "", text) for text in found]


def options_in_text(question: str) -> list[str]:
    """The choices that a question names itself, as "A) …" or "(A) …"; empty where it names none or skips a letter."""
    found = _IN_TEXT.findall(question)
    letters = [letter for letter, _ in found]
    if len(letters) < 2 or letters != [chr(ord("A") + index) for index in range(len(letters))]:
        return []
    return [text.strip() for _, text in found]
