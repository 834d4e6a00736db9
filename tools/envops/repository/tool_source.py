"""The tool's own source: whether a repository holds it, and which checkout is trusted."""

from __future__ import annotations

from pathlib import Path

TOOL_FOLDER = "tools"
REGISTRY_FILE = "registry.yaml"


def holds_tool(root: Path) -> bool:
    """Whether this is a repository of the tool, or a fork: it has the code of `envops` in `tools/`.

    There a change of the tool changes verdicts, and its pages, its schema and its locks are written. In every other
    repository the tool is an installed package, and a folder `tools/` is the team's own.
    """
    return (root / TOOL_FOLDER / "envops" / "__init__.py").is_file()


def own_checkout() -> Path:
    """The checkout whose declarations count beside a key, whichever other one a command works on.

    It is the one that this tool is part of. An installed tool is part of none: then it is the repository in which the
    command was started.
    """
    source = Path(__file__).resolve().parents[3]
    if holds_tool(source):
        return source
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / REGISTRY_FILE).is_file()), here)
