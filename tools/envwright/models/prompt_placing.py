"""Replacing the system prompt in the source of a package, if that can be done mechanically.

This is possible if the prompt is one string of a Python file, or the whole text of a file. A prompt
that is assembled at run time needs a person.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envwright.text.plain_data import patch_text
from envwright.text.python_source import UNPARSABLE, parse_python

TEXT_FILES = frozenset({".txt", ".md", ".prompt"})
LONGEST_LINE = 100
"""Characters of a line of a prompt in Python source; longer lines are continued."""
NEAR = 0.5
"""The least similarity of a string that is named as the likely place."""


class NotPlaceable(Exception):
    """Nothing was changed; the message has the reason and the likely place."""


@dataclass(frozen=True)
class Placement:
    """The file to change, and its new text."""

    path: Path
    line: int
    text: str

    def diff(self, root: Path) -> str:
        """The change, as `git apply` takes it."""
        return patch_text(self.path.relative_to(root).as_posix(), self.path.read_bytes().decode(), self.text)


@dataclass(frozen=True)
class _Found:
    """A string of the package."""

    path: Path
    line: int
    value: str
    span: tuple[int, int] | None
    """Bytes of its literal; `None` for a whole file."""


def placement(folder: Path, old: str, new: str) -> Placement:
    """The place of the new prompt in the package's folder.

    Raises `NotPlaceable` if the whole old prompt does not occur exactly once.
    """
    if not old.strip():
        raise NotPlaceable("the environment has no system prompt to replace: add one with this text")
    strings = list(_strings(folder))
    found = [
        string
        for string in strings
        if string.value == old or (string.span is None and string.value.strip() == old.strip())
    ]
    if len(found) > 1:
        places = ", ".join(f"{each.path.relative_to(folder)}:{each.line}" for each in found)
        raise NotPlaceable(f"the prompt occurs several times in the source: {places}")
    if not found:
        raise NotPlaceable(
            f"the prompt is not in the source as a whole: it is assembled at run time{_near(strings, old, folder)}"
        )
    [there] = found
    if there.span is None:
        end = "\n" if there.value.endswith("\n") and not new.endswith("\n") else ""
        return Placement(there.path, 1, new + end)
    source = there.path.read_bytes()
    start, stop = there.span
    text = (source[:start] + literal(new).encode() + source[stop:]).decode("utf-8")
    parse_python(text)
    return Placement(there.path, there.line, text)


def literal(text: str) -> str:
    """The text as a Python string: in triple quotes if it has several lines or long ones."""
    if any(not character.isprintable() and character != "\n" for character in text):
        return repr(text)
    escaped = text.replace("\\", "\\\\")
    if "\n" not in text and len(text) <= LONGEST_LINE:
        return '"' + escaped.replace('"', '\\"') + '"'
    lines = "\n".join(_continued(line) for line in escaped.replace('"""', '\\"\\"\\"').split("\n"))
    lines = lines[:-1] + '\\"' if lines.endswith('"') and not lines.endswith('\\"') else lines
    shown = f'"""{lines}"""'
    return shown if ast.literal_eval(shown) == text else repr(text)


def _continued(line: str) -> str:
    """A long line in several, each but the last continued by a backslash after its space."""
    parts, rest = [], line
    while len(rest) > LONGEST_LINE and (cut := rest.rfind(" ", 1, LONGEST_LINE)) > 0:
        parts.append(rest[: cut + 1])
        rest = rest[cut + 1 :]
    return "\\\n".join([*parts, rest])


def _strings(folder: Path) -> Iterator[_Found]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if not path.is_file() or parts[0] in ("tests", "recordings") or any(part.startswith(".") for part in parts):
            continue
        if path.suffix == ".py":
            yield from _literals(path)
        elif path.suffix in TEXT_FILES and len(parts) > 1:
            yield _Found(path, 1, path.read_text("utf-8", "replace"), None)


def _literals(path: Path) -> Iterator[_Found]:
    """Every string of a Python file but its docstrings and the parts of f-strings."""
    source = path.read_bytes()
    try:
        source.decode()  # the tree counts bytes of UTF-8
        tree = parse_python(source)
    except UNPARSABLE:
        return
    starts = [0, *(match.end() for match in re.finditer(rb"\n", source))]
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in parts | docstrings:
            continue
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        span = (starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset)
        yield _Found(path, node.lineno, node.value, span)


def _near(strings: list[_Found], old: str, folder: Path) -> str:
    """The string that is most similar, for the message."""
    likely = [
        (difflib.SequenceMatcher(None, string.value[:4_000], old[:4_000], autojunk=False).ratio(), string)
        for string in strings
        if len(string.value) > 20
    ]
    best = max(likely, key=lambda one: one[0], default=None)
    if best is None or best[0] < NEAR:
        return ""
    return f", most likely from {best[1].path.relative_to(folder)}:{best[1].line}"
