"""CODEOWNERS, generated from the maintainers and owners in registry.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from envops.repository.registry import Registry

CODEOWNERS_FILE = "CODEOWNERS"
_BEGINNING = "# Generated from the maintainers and owners in registry.yaml"
_HEADER = f"{_BEGINNING}: change them there, then run envops docs."


def is_generated(text: str) -> bool:
    """Whether the text of a CODEOWNERS file is the tool's own, of any version."""
    return text.startswith(_BEGINNING)


def is_handwritten(root: Path) -> bool:
    """Whether the team writes CODEOWNERS itself; the tool then leaves it as it is."""
    file = root / CODEOWNERS_FILE
    return file.is_file() and not is_generated(file.read_text("utf-8", "replace"))


def render(registry: Registry) -> str:
    """The text of CODEOWNERS: the maintainers own everything but the environments that name owners, a line for each.

    The last line that matches a file decides, so the line of the maintainers is the first.
    """
    rows = [f"* {' '.join(registry.maintainers)}"] if registry.maintainers else []
    entries = sorted(registry.environments.values(), key=lambda entry: entry.folder_name)
    rows += [f"/environments/{entry.folder_name}/ {' '.join(entry.owners)}" for entry in entries if entry.owners]
    return "\n".join([_HEADER, *rows]) + "\n"
