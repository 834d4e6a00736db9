"""CODEOWNERS, generated from the owners in registry.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envops.repository.registry import Registry

CODEOWNERS_FILE = "CODEOWNERS"
_HEADER = "# Generated from the owners in registry.yaml: change them there, then run nox -s docs."


def render(registry: Registry) -> str:
    """The text of CODEOWNERS: one line for each environment that names owners, in order of folders."""
    entries = sorted(registry.environments.values(), key=lambda entry: entry.folder_name)
    rows = [f"/environments/{entry.folder_name}/ {' '.join(entry.owners)}" for entry in entries if entry.owners]
    return "\n".join([_HEADER, *rows]) + "\n"
