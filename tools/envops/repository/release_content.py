"""The little of an environment that the Hub is compared with: read for a thousand of them in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from envops.repository.content import UnreadablePatternError, hub_content_hash
from envops.repository.problem import DeclarationError
from envops.repository.pyproject import read_pyproject

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class ReleaseContent:
    """What would be published under which version."""

    version: str
    hub_hash: str


def release_content(folder: Path, root: Path) -> ReleaseContent | None:
    """Version and content hash of an environment; `None` where `read_package` has to say what is wrong."""
    try:
        pyproject = read_pyproject(folder / "pyproject.toml", root)
        version = pyproject.table("project").get("version")
        named = pyproject.table("project").get("name") == folder.name.replace("_", "-")
        if not named or not isinstance(version, str):
            return None
        return ReleaseContent(version, hub_content_hash(folder))
    except (DeclarationError, UnreadablePatternError, OSError):
        return None
