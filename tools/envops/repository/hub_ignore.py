"""Which files the Hub's content hash leaves out because of the environment's own .gitignore.

The prime CLI reads that file with the library gitignore_parser, which differs from git (and so
from pathspec) in ways that change the hash: `data/` also leaves out a file of that name, a
negated folder pattern never applies, a backslash escapes nothing. Its rules are kept here as
they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class UnreadablePatternError(ValueError):
    """A line of .gitignore on which the prime CLI stops with an error of its own."""

    def __init__(self, pattern: str, line: int) -> None:
        super().__init__(f".gitignore line {line}: {pattern!r}")
        self.pattern = pattern
        self.line = line


@dataclass(frozen=True)
class _Rule:
    regex: re.Pattern[str]
    negation: bool


def ignore_matcher(folder: Path) -> Callable[[str], bool]:
    """Says of a path relative to the folder whether its .gitignore leaves it out.

    Raises `UnreadablePatternError` where the prime CLI could not read the file either.
    """
    path = folder / ".gitignore"
    if not path.is_file():
        return lambda _: False
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    rules: list[_Rule] = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            rules += _rules_of(line)
        except (re.error, ValueError):
            raise UnreadablePatternError(line, number) from None

    def ignored(name: str) -> bool:
        for rule in reversed(rules):
            if rule.regex.search(name):
                return not rule.negation
        return False

    return ignored


def _rules_of(line: str) -> tuple[_Rule, ...]:
    if not line.strip() or line.startswith("#"):
        return ()
    negation = line.startswith("!")
    pattern = line[1:] if negation else line
    # Several asterisks mean more than one only between slashes.
    pattern = re.sub(r"([^/])\*{2,}", r"\1*", pattern)
    pattern = re.sub(r"\*{2,}([^/])", r"*\1", pattern)
    if pattern.rstrip() == "/":
        return ()
    folder_only = pattern.endswith("/")
    anchored = "/" in pattern[:-1]
    pattern = pattern.removeprefix("/")
    if pattern.startswith("**"):
        pattern, anchored = pattern[2:], False
    pattern = pattern.removeprefix("/").removesuffix("/")
    if pattern in ("", "\\"):
        raise ValueError("nothing is left of the pattern")
    if pattern[:2] in ("\\#", "\\!"):
        pattern = pattern[1:]
    start = "^" if anchored else "(^|/)"
    end = "$" if not folder_only else "/$" if negation else "($|/)"
    return (_Rule(re.compile(start + _regex_of(_without_trailing_spaces(pattern)) + end), negation),)


def _without_trailing_spaces(pattern: str) -> str:
    position, strip = len(pattern) - 1, True
    while position > 1 and pattern[position] == " ":
        if pattern[position - 1] == "\\":
            pattern = pattern[: position - 1] + pattern[position:]
            position -= 1
            strip = False
        elif strip:
            pattern = pattern[:position]
        position -= 1
    return pattern


def _regex_of(pattern: str) -> str:
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        rest = pattern[position:]
        if rest.startswith("**/"):
            parts.append("(.*/)?")
            position += 3
        elif rest.startswith("**"):
            parts.append(".*")
            position += 2
        elif rest.startswith("[") and (length := _length_of_set(rest)):
            parts.append(_set_of(rest[1 : length - 1]))
            position += length
        else:
            parts.append({"*": "[^/]*", "?": "[^/]", "/": "[/]"}.get(rest[0]) or re.escape(rest[0]))
            position += 1
    return "".join(parts)


def _length_of_set(text: str) -> int:
    """Characters of the `[…]` at the beginning of the text, 0 when it is not closed."""
    position = 1
    position += text[position : position + 1] == "!"
    position += text[position : position + 1] == "]"
    return text.find("]", position) + 1


def _set_of(inside: str) -> str:
    inside = inside.replace("\\", "\\\\").replace("/", "")
    if inside.startswith("!"):
        inside = "^" + inside[1:]
    elif inside.startswith("^"):
        inside = "\\" + inside
    return f"[{inside}]"
