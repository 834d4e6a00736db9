"""The repository that holds the tool's own source, and what the tool does there alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

TOOL_FOLDER = "tools"


def holds_tool(root: Path) -> bool:
    """Whether this is a repository of the tool, or a fork: it has the code of `envops` in `tools/`.

    There a change of the tool changes verdicts, and its pages, its schema and its locks are written. In every other
    repository the tool is an installed package, and a folder `tools/` is the team's own.
    """
    return (root / TOOL_FOLDER / "envops" / "__init__.py").is_file()
