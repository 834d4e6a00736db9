"""pyproject.toml of an environment: its data, the line of every key, and the requirements that it states."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement

from envwright.declarations.declared_text import read_text, relative
from envwright.declarations.document import parse_toml
from envwright.declarations.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packaging.markers import Marker

MAX_BYTES = 1_000_000

_WORD = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*')"
_KEY = rf"{_WORD}(?:[ \t]*\.[ \t]*{_WORD})*"
_TABLE = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_KEY})[ \t]*\]\]?")
_ASSIGNMENT = re.compile(rf"[ \t]*({_KEY})[ \t]*=")
_PART = re.compile(_WORD)
_TOKEN = re.compile(r'"""|\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|[\[\]{}]|#[^\n]*|\n')
_LONG_STRING = {
    '"""': re.compile(r'(?:[^"\\]|\\.|"(?!""))*"{3,5}', re.DOTALL),
    "'''": re.compile(r"(?:[^']|'(?!''))*'{3,5}", re.DOTALL),
}
"""The rest of a text, by the quotes that opened it."""


@dataclass(frozen=True)
class Pyproject:
    """A pyproject.toml that could be read."""

    file: str
    data: Mapping[str, Any]
    lines: Mapping[str, int]
    """Key → line: `project.version`, and of a list's entries `project.dependencies[0]`."""

    def table(self, *keys: str) -> Mapping[str, Any]:
        """The table at a place, or an empty one if there is none."""
        data: Any = self.data
        for key in keys:
            data = data.get(key) if isinstance(data, dict) else None
        return data if isinstance(data, dict) else {}

    def line(self, key: str) -> int | None:
        """Line of the key, or of the nearest table that contains it."""
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        return self.lines.get(key)

    def problem(self, key: str, message: str, found: object = "", **more: str) -> Problem:
        """A problem at one key of this file."""
        return Problem(self.file, self.line(key), message, key, str(found), **more)


def read_pyproject(path: Path, root: Path) -> Pyproject:
    """Read a pyproject.toml.

    Raises `DeclarationError` if it is not readable TOML (see also `read_text`).
    """
    text, file = read_text(path, root, MAX_BYTES), relative(path, root)
    return Pyproject(file, parse_toml(text, file), key_lines(text))


def key_lines(text: str) -> dict[str, int]:
    """Line of every table, key and list entry in TOML text that is valid.

    Keys inside inline tables are left out; they have the line of the key that holds them.
    """
    lines: dict[str, int] = {}
    table, offset, line = "", 0, 1
    while offset < len(text):
        start, key = offset, ""
        if header := _TABLE.match(text, offset):
            table = _name(header[2])
            lines.setdefault(table, line)
            offset = header.end()
        elif assignment := _ASSIGNMENT.match(text, offset):
            key = ".".join(part for part in (table, _name(assignment[1])) if part)
            lines.setdefault(key, line)
            offset = assignment.end()
        offset = _end_of_value(text, offset, key, line, lines)
        line += text.count("\n", start, offset)
    return lines


def _end_of_value(text: str, offset: int, key: str, line: int, lines: dict[str, int]) -> int:
    """Walk to the end of the value, noting the line of each list entry."""
    depth, entry = 0, 0
    while token := _TOKEN.search(text, offset):
        found, offset = token[0], token.end()
        if found == "\n":
            line += 1
            if depth == 0:
                return offset
        elif found in "[{":
            depth += 1
        elif found in "]}":
            depth -= 1
        elif found[0] in "\"'":
            if key and depth == 1:
                lines.setdefault(f"{key}[{entry}]", line)
                entry += 1
            if len(found) == 3 and found in ('"""', "'''"):
                closed = _LONG_STRING[found].match(text, offset)
                end = closed.end() if closed else len(text)
                line += text.count("\n", offset, end)
                offset = end
    return len(text)


def _name(key: str) -> str:
    return ".".join(part.strip("\"'") for part in _PART.findall(key))


@lru_cache(maxsize=4096)
def parse_requirement(text: str) -> Requirement:
    """The requirement of a text.

    Raises `InvalidRequirement`, also if packaging's own parser stops at deep nesting.
    """
    try:
        return Requirement(text)
    except RecursionError:
        raise InvalidRequirement("its marker is nested too deeply") from None


def readable_requirement(text: str) -> Requirement | None:
    """The requirement of a text, or `None` if the text is not a requirement."""
    try:
        return parse_requirement(text)
    except InvalidRequirement:
        return None


def holds(marker: Marker | None, values: Mapping[str, str], extra: str = "") -> bool | None:
    """Whether a requirement's marker holds; `None` if it cannot be evaluated, as `sys_platform ~= "linux"`."""
    if marker is None:
        return True
    try:
        return marker.evaluate({**values, "extra": extra})
    except (UndefinedEnvironmentName, ValueError):
        return None
