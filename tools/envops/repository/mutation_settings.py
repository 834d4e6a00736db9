"""`[tool.envops.mutation]`: mutants of the reward code that the author says nothing can tell apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envops.repository.problem import Problem, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.repository.pyproject import Pyproject

_TABLE = "tool.envops.mutation.equivalent"
_KEYS = ("mutant", "reason")
_EXAMPLE = '{ mutant = "name:operator:0a1b2c", reason = "why no reply can tell it apart" }'


@dataclass(frozen=True)
class EquivalentMutant:
    """A mutant that behaves as the code itself does, and why."""

    mutant: str
    """Its id, as the report names it."""
    reason: str


@dataclass(frozen=True)
class MutationDeclaration:
    """What the author says of the mutants of the reward code."""

    equivalent: tuple[EquivalentMutant, ...] = ()


def read_mutation_settings(pyproject: Pyproject) -> tuple[MutationDeclaration, list[Problem]]:
    """The declaration and what is wrong with it; an entry with a problem is left out.

    That `equivalent` is a list at all is seen to where the tables are read.
    """
    entries = pyproject.table("tool", "envops", "mutation").get("equivalent", [])
    marks: dict[str, EquivalentMutant] = {}
    problems: list[Problem] = []
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        place = f"{_TABLE}[{index}]"
        place = place if place in pyproject.lines else _TABLE  # entries that are no text have no line of their own
        found = list(_entry_problems(pyproject, place, entry))
        if not found and entry["mutant"] in marks:
            found = [pyproject.problem(place, "is marked already", entry["mutant"], fix="keep one")]
        if not found:
            marks[entry["mutant"]] = EquivalentMutant(entry["mutant"], entry["reason"])
        problems += found
    return MutationDeclaration(tuple(marks.values())), problems


def _entry_problems(pyproject: Pyproject, place: str, entry: Any) -> Iterator[Problem]:
    if not isinstance(entry, dict):
        yield pyproject.problem(place, "is not a mark of a mutant", repr(entry), allowed=_EXAMPLE)
        return
    for key in entry:
        if key not in _KEYS:
            near = nearest(key, _KEYS)
            yield pyproject.problem(place, "is not a known key", key, allowed=", ".join(_KEYS), nearest=near)
    for key in _KEYS:
        value = entry.get(key)
        if key not in entry:
            yield pyproject.problem(place, f"lacks the key {key}", repr(entry), allowed=_EXAMPLE)
        elif not isinstance(value, str) or not value.strip():
            yield pyproject.problem(place, f"has a {key} that is not text", repr(value), allowed=_EXAMPLE)
