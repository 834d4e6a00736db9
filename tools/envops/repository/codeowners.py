"""CODEOWNERS, generated from the owners in registry.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops.repository.declared_text import read_text
from envops.repository.problem import DeclarationError, Problem

if TYPE_CHECKING:
    from pathlib import Path

    from envops.repository.registry import Registry

CODEOWNERS_FILE = "CODEOWNERS"
_HEADER = "# Generated from the owners in registry.yaml: change them there, then run nox -s docs."


def render(registry: Registry) -> str:
    """The text of CODEOWNERS: one line for each environment that names owners, in order of folders."""
    entries = sorted(registry.environments.values(), key=lambda entry: entry.folder_name)
    rows = [f"/environments/{entry.folder_name}/ {' '.join(entry.owners)}" for entry in entries if entry.owners]
    return "\n".join([_HEADER, *rows]) + "\n"


def codeowners_problems(registry: Registry, root: Path, fix: str = "nox -s docs") -> list[Problem]:
    """The first line where the file differs from the registry's owners; `fix` is how to write the file again."""
    expected = render(registry)
    try:
        found = read_text(root / CODEOWNERS_FILE, root)
    except DeclarationError as error:
        return [Problem(problem.file, problem.line, problem.message, fix=fix) for problem in error.problems]
    if found == expected:
        return []
    want, have = expected.splitlines(), found.splitlines()
    line = next(
        (index for index, pair in enumerate(zip(want, have, strict=False)) if pair[0] != pair[1]),
        min(len(want), len(have)),
    )
    return [
        Problem(
            CODEOWNERS_FILE,
            line + 1,
            "does not match registry.yaml",
            found=have[line] if line < len(have) else "",
            allowed=want[line] if line < len(want) else "no such line",
            fix=fix,
        )
    ]
