"""Whether a repository holds the source of the tool, and which checkout is trusted."""

from __future__ import annotations

from pathlib import Path

TOOL_FOLDER = "tools"
REGISTRY_FILE = "registry.yaml"


def holds_tool(root: Path) -> bool:
    """Whether this is a repository of the tool, or a fork: it has the code of `envwright` in `tools/`.

    There a change of the tool changes verdicts, and its pages, its schema and its locks are written. In every other
    repository the tool is an installed package, and a folder `tools/` is the team's own.
    """
    return (root / TOOL_FOLDER / "envwright" / "__init__.py").is_file()


def own_checkout() -> Path:
    """The checkout whose declarations count beside a key, whichever other one a command works on (`--root`).

    It is the repository in which the command was started: the nearest folder with a registry, or this folder. The
    tool's own location does not count, because the tool may be installed, or belong to another repository's action.
    """
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / REGISTRY_FILE).is_file()), here)
