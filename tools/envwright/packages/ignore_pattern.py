"""Patterns of .gitignore, matched in a time that does not grow with a power of the name's length.

gitignore_parser makes a regular expression of every pattern. With several `*` in it, Python's engine tries all ways to
divide a name among them: thirty of them and one long name take years. Such a pattern is matched here by following all
its states at once, with the same result.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_PARTS = re.compile(
    r"(?P<anywhere>\(\^\|\[/\]\))|(?P<start>\^)|(?P<folders>\(\.\*\[/\]\)\?)|(?P<end_or_slash>\(\$\|\\/\))|(?P<end>\$)"
    r"|(?P<any>\.\*)|(?P<within>\[\^/\]\*)|(?P<one>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.)",
    re.DOTALL,
)
"""All that gitignore_parser's expressions consist of."""
_UNBOUNDED = ("folders", "any", "within")
_Fits = Callable[[str], object]


@dataclass(frozen=True)
class _State:
    fits: _Fits
    """Whether a character of the name leads on."""
    repeats: bool = False
    skipped_to: int | None = None
    """The state that may follow without any character."""


class IgnorePattern:
    """The expression of one pattern. Raises `re.error` where it is none."""

    def __init__(self, regex: str) -> None:
        self._regex = re.compile(regex)
        parts = [(str(found.lastgroup), found[0]) for found in _PARTS.finditer(regex)]
        self._has_few_ways = sum(kind in _UNBOUNDED for kind, _ in parts) <= 1
        self._states = () if self._has_few_ways else tuple(_states(parts))
        self._begins_anywhere = parts[0][0] == "anywhere"
        self._ends_before_slash = parts[-1][0] == "end_or_slash"

    def matches(self, name: str) -> bool:
        """Whether the pattern matches a path."""
        if self._has_few_ways:
            return self._regex.search(name) is not None
        last = len(self._states)
        current = self._with_skipped({0})
        for character in name:
            if self._ends_before_slash and character == "/" and last in current:
                return True
            following = {0} if self._begins_anywhere and character == "/" else set()
            for number in current - {last}:
                state = self._states[number]
                if state.fits(character):
                    following.add(number if state.repeats else number + 1)
            current = self._with_skipped(following)
        return last in current

    def _with_skipped(self, reached: set[int]) -> set[int]:
        waiting = list(reached)
        while waiting:
            number = waiting.pop()
            if number == len(self._states):
                continue
            state = self._states[number]
            ways = [number + 1] if state.repeats else []
            ways += [] if state.skipped_to is None else [state.skipped_to]
            for each in ways:
                if each not in reached:
                    reached.add(each)
                    waiting.append(each)
        return reached


def _states(parts: list[tuple[str, str]]) -> list[_State]:
    states: list[_State] = []
    for kind, text in parts:
        if kind == "folders":  # any folders with a slash after them, or nothing
            states += [_State(_any, repeats=True, skipped_to=len(states) + 2), _State("/".__eq__)]
        elif kind == "any":
            states.append(_State(_any, repeats=True))
        elif kind == "within":
            states.append(_State("/".__ne__, repeats=True))
        elif kind == "one":
            states.append(_State(re.compile(text, re.DOTALL).fullmatch))
    return states


def _any(character: str) -> bool:
    return character != "\n"
