"""A new entry in the text of registry.yaml: everything else stays as it is, comments included."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence


class NoPlace(ValueError):
    """The text has no block of environments into which an entry could be put."""


def with_entry(text: str, name: str, owners: Sequence[str], ignored: Mapping[str, str] | None = None) -> str:
    """The registry with one environment more, in alphabetical order; `ignored` are rules and why they are.

    Raises `NoPlace` where `environments:` is not a block of lines.
    """
    lines = text.splitlines(keepends=True)
    start = next(
        (index for index, line in enumerate(lines) if re.match(r"environments:\s*(\{\}\s*)?(#.*)?$", line)), None
    )
    if start is None:
        raise NoPlace("no line says environments:")
    lines[start] = re.sub(r"(environments:)\s*\{\}", r"\1", lines[start])
    end = next((index for index in range(start + 1, len(lines)) if re.match(r"[^\s#]", lines[index])), len(lines))
    entries = [
        (index, found) for index in range(start + 1, end) if (found := re.match(r"( +)([\w.-]+):", lines[index]))
    ]
    indent = min((len(found[1]) for _, found in entries), default=2)
    own = [(index, found[2]) for index, found in entries if len(found[1]) == indent]
    place = next((index for index, other in own if other > name), None)
    if place is None:
        place = end
        while place > start + 1 and not lines[place - 1].strip():
            place -= 1
    else:
        while lines[place - 1].strip().startswith("#"):  # a comment above an entry is about that entry
            place -= 1
    if place and not lines[place - 1].endswith("\n"):
        lines[place - 1] += "\n"
    blank = " " * indent
    rows = [f"owners: {json.dumps(list(owners))}"] if owners else []
    rows += (
        ["ignore:", *(f"{blank}{rule}: {json.dumps(reason)}" for rule, reason in ignored.items())] if ignored else []
    )
    said = "".join(f"{blank * 2}{row}\n" for row in rows)
    entry = f"{blank}{name}:\n{said}" if rows else f"{blank}{name}: {{}}\n"
    return "".join([*lines[:place], entry, *lines[place:]])
