"""A suggested change of a run as a patch to registry.yaml, which keeps the author's comments and order."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from envwright.declarations.document import parse_document
from envwright.declarations.problem import DeclarationError
from envwright.declarations.yaml_edits import NoPlace, with_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envwright.declarations.run import RunSpec

FILE = "registry.yaml"


def registry_patch(text: str, spec: RunSpec, change: Mapping[str, Any]) -> str:
    """The change as a unified diff that `git apply` takes; an empty string for no change.

    If the file cannot be edited at the place of each key, it is a snippet of the run's keys.
    """
    if not change:
        return ""
    edited = text
    try:
        for key, value in change.items():
            edited = with_value(edited, ["runs", spec.name, *key.split(".")], _written(value))
    except NoPlace:
        return _snippet(spec, change)
    if not _holds(edited, spec, change):
        return _snippet(spec, change)
    old, new = text.splitlines(keepends=True), edited.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, f"a/{FILE}", f"b/{FILE}", n=2))


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
