"""The documentation of facts and assumptions about the real Hub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from envwright_emulator import server  # noqa: F401 - it fills the table of endpoints
from envwright_emulator.behaviour import ASSUMPTIONS, Behaviour
from envwright_emulator.hub import ROUTES

_HEAD = """# Facts and assumptions of the emulator

- **measured**: the real prime CLI (0.18.0) was run against a recording server.
- **read**: from the CLI's source.
- **assumed**: about the real server, which was not available. A release must not depend on it.
"""


def assumptions() -> str:
    """The page as Markdown: the open questions with their settings, and every route."""
    return "\n".join([_HEAD, *_questions(), "", *_endpoints()]) + "\n"


def _questions() -> Iterator[str]:
    yield "## Open questions, each with a setting\n"
    yield "| `--assume` | question | assumed | else |\n|---|---|---|---|"
    for field in fields(Behaviour):
        assumption = ASSUMPTIONS[field.name]
        other = ", ".join(answer for answer in assumption.allowed if answer != field.default) or "any number"
        yield f"| `{field.name.replace('_', '-')}` | {assumption.question} | {field.default} | {other} |"


def _endpoints() -> Iterator[str]:
    yield "## Endpoints\n\nBelow `/api/v1`, but for uploads, files and the index.\n"
    yield "| endpoint | known | what | assumed besides |\n|---|---|---|---|"
    for each in ROUTES:
        yield f"| {each.method} `{each.path}` | {each.known} | {each.about} | {'; '.join(each.assumes)} |"
