"""Writing a new version into pyproject.toml, and nothing else."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from envops.repository.problem import DeclarationError, Problem
from envops.repository.pyproject import key_lines

if TYPE_CHECKING:
    from pathlib import Path

_VALUE = re.compile(r"""^(\s*(?:version|"version"|'version'|project\s*\.\s*version)\s*=\s*)(["'])([^"']+)\2""")


def write_version(path: Path, version: str, file: str) -> None:
    """Set `project.version` in a pyproject.toml; every other byte stays as it is.

    Raises `DeclarationError` where the version does not stand on a line of its own.
    """
    raw = path.read_bytes()
    text = raw.decode("utf-8")
    line = key_lines(text).get("project.version")
    rows = text.splitlines(keepends=True)
    match = _VALUE.match(rows[line - 1]) if line is not None and line <= len(rows) else None
    if line is None or match is None:
        message = "has no version that can be written: it stands in no line of its own"
        raise DeclarationError([Problem(file, line, message, "project.version", fix='write: version = "0.1.0"')])
    row = rows[line - 1]
    rows[line - 1] = f"{match[1]}{match[2]}{version}{match[2]}{row[match.end() :]}"
    written = "".join(rows)
    if _without_version(tomllib.loads(written)) != _without_version(tomllib.loads(text)):
        message = "would change in more than its version"
        raise DeclarationError([Problem(file, line, message, "project.version", fix="raise the version by hand")])
    path.write_bytes(written.encode("utf-8"))


def _without_version(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "project": {key: value for key, value in data["project"].items() if key != "version"}}
