"""Constants and patterns in the reward's own source, which an attacker would read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

LONGEST = 80
MOST = 60
_PATTERN_CALLS = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "split"}
_PATTERN_MARKS = re.compile(r"\\[dwsbS]|\.[*+]|\[\^|\(\?|[)\]][*+?]")


@dataclass(frozen=True)
class Constants:
    """Strings, numbers and regular expressions, with the places of strings."""

    strings: Mapping[str, str]
    """Text → `file:line`."""
    numbers: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


def constants_of(files: Mapping[str, str]) -> Constants:
    """The constants in source files, name → text; docstrings and whole prompts are left out."""
    strings: dict[str, str] = {}
    numbers: dict[str, None] = {}
    patterns: dict[str, None] = {}
    for name, text in files.items():
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            continue
        patterns |= dict.fromkeys(_patterns(tree))
        for node in _constants(tree):
            value = node.value
            if isinstance(value, str) and value.strip() and len(value) <= LONGEST:
                strings.setdefault(value, f"{name}:{node.lineno}")
                for word in re.findall(r"[\w.+-]{2,}", value):
                    strings.setdefault(word, f"{name}:{node.lineno}")
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                numbers.setdefault(f"{value:g}" if isinstance(value, float) else str(value))
    kept = dict(list(strings.items())[:MOST])
    return Constants(kept, tuple(numbers)[:MOST], tuple(patterns)[:MOST])


def _constants(tree: ast.AST) -> Iterator[ast.Constant]:
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield node


def _patterns(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            text = _text_of(node.args[0]) if called in _PATTERN_CALLS else None
            if text:
                yield text
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _PATTERN_MARKS.search(node.value):
            yield node.value


def _text_of(node: ast.expr) -> str | None:
    """A literal pattern; the fields of an f-string are filled with a findable text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return None


def compiling(patterns: Iterable[str]) -> list[str]:
    """The patterns that are valid regular expressions."""
    sound = []
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError):
            continue
        sound.append(pattern)
    return sound
