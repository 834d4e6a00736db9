"""A suggested change of a run as a patch to registry.yaml, which keeps the author's comments and order."""

from __future__ import annotations

import difflib
import json
import re
from typing import TYPE_CHECKING, Any

from envwright.declarations.document import parse_document
from envwright.declarations.problem import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envwright.declarations.run import RunSpec

FILE = "registry.yaml"


def registry_patch(text: str, spec: RunSpec, change: Mapping[str, Any]) -> str:
    """The change as a unified diff that `git apply` takes; an empty string for no change.

    If the file cannot be edited line by line, it is a snippet of the run's keys.
    """
    if not change:
        return ""
    lines = text.splitlines(keepends=True)
    for key, value in change.items():
        edited = _edited(lines, spec, key, value)
        if edited is None:
            return _snippet(spec, change)
        lines = edited
    if not _holds("".join(lines), spec, change):
        return _snippet(spec, change)
    old = text.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, lines, f"a/{FILE}", f"b/{FILE}", n=2))


def _edited(lines: list[str], spec: RunSpec, key: str, value: Any) -> list[str] | None:
    """The lines with one key set; `None` if that cannot be done on one line."""
    start, end = _block(lines, spec)
    if start is None or end is None:
        return None
    parent, _, name = key.rpartition(".")
    pattern = re.compile(
        rf"(?P<before>(?:^\s*|[{{,]\s*){re.escape(name)}:\s*)(?P<value>[^\s,}}#][^,}}#\n]*?)(?P<after>\s*(?:[,}}#\n]|$))"
    )
    within = _parent_lines(lines, start, end, parent)
    for index in within:
        found = pattern.search(lines[index])
        if found is not None:
            new = f"{found['before']}{_written(value)}{found['after']}"
            return [
                *lines[:index],
                lines[index][: found.start()] + new + lines[index][found.end() :],
                *lines[index + 1 :],
            ]
    return _inserted(lines, start, within, parent, name, value)


def _inserted(lines: list[str], start: int, within: range, parent: str, name: str, value: Any) -> list[str] | None:
    indent = " " * (len(lines[start]) - len(lines[start].lstrip()) + 2)
    if not parent:
        return [*lines[: start + 1], f"{indent}{name}: {_written(value)}\n", *lines[start + 1 :]]
    if not within:
        return [*lines[: start + 1], f"{indent}{parent}: {{{name}: {_written(value)}}}\n", *lines[start + 1 :]]
    row = lines[within[0]]
    if "{" not in row:
        return None
    at = row.index("{") + 1
    return [*lines[: within[0]], f"{row[:at]}{name}: {_written(value)}, {row[at:]}", *lines[within[0] + 1 :]]


def _block(lines: list[str], spec: RunSpec) -> tuple[int | None, int | None]:
    """First and past-the-last line of the run, from 0."""
    line = spec.line()
    if line is None or not 0 < line <= len(lines):
        return None, None
    start = line - 1
    depth = len(lines[start]) - len(lines[start].lstrip())
    for index in range(start + 1, len(lines)):
        row = lines[index]
        if row.strip() and not row.lstrip().startswith("#") and len(row) - len(row.lstrip()) <= depth:
            return start, index
    return start, len(lines)


def _parent_lines(lines: list[str], start: int, end: int, parent: str) -> range:
    """The lines on which a key may be: those of its mapping, or the run's own."""
    if not parent:
        return range(start + 1, end)
    for index in range(start + 1, end):
        if re.match(rf"\s*{re.escape(parent)}:", lines[index]):
            depth = len(lines[index]) - len(lines[index].lstrip())
            last = index + 1
            while last < end and len(lines[last]) - len(lines[last].lstrip()) > depth:
                last += 1
            return range(index, last)
    return range(0)


def _holds(text: str, spec: RunSpec, change: Mapping[str, Any]) -> bool:
    """Whether the edited text declares the change and can still be read."""
    try:
        document = parse_document(text, FILE)
    except DeclarationError:
        return False
    run = document.data.get("runs", {}).get(spec.name, {}) if isinstance(document.data, dict) else {}
    for key, value in change.items():
        found: Any = run
        for part in key.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if found != value:
            return False
    return not document.problems


def _written(value: Any) -> str:
    if isinstance(value, float):
        mantissa, _, exponent = f"{value:e}".partition("e")
        digits = mantissa.rstrip("0").rstrip(".") or "0"
        return f"{digits if '.' in digits else digits + '.0'}e{int(exponent)}" if value < 0.01 else repr(value)
    return json.dumps(value)


def _snippet(spec: RunSpec, change: Mapping[str, Any]) -> str:
    rows = [f"runs:\n  {spec.name}:"]
    for key, value in change.items():
        parent, _, name = key.rpartition(".")
        rows.append(f"    {parent}: {{{name}: {_written(value)}}}" if parent else f"    {name}: {_written(value)}")
    return "\n".join(rows) + "\n"
