"""Requirement texts, read once each."""

from __future__ import annotations

from functools import lru_cache

from packaging.requirements import InvalidRequirement, Requirement


@lru_cache(maxsize=4096)
def parse_requirement(text: str) -> Requirement:
    """The requirement that the text states.

    Raises `InvalidRequirement`, also where packaging's own parser gives up on nesting.
    """
    try:
        return Requirement(text)
    except RecursionError:
        raise InvalidRequirement("its marker is nested too deeply") from None


def readable_requirement(text: str) -> Requirement | None:
    """The same, or `None` for what is no requirement."""
    try:
        return parse_requirement(text)
    except InvalidRequirement:
        return None
