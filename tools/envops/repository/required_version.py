"""The versions of the tool that can read a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from envops import __version__
from envops.repository.problem import Problem

if TYPE_CHECKING:
    from envops.repository.document import Document

FORMAT = 1
"""The version of the format of registry.yaml that this tool reads."""
UPGRADE_TOOL = "uv tool upgrade envops, or pipx upgrade envops"


def version_problem(document: Document) -> Problem | None:
    """The problem of a registry that is for another version of the tool; it hides all others of the file.

    A newer format and newer keys would only be reported as mistakes.
    """
    declared, requires = document.data.get("version"), document.data.get("requires")
    if _is_unmet(requires):
        message = f"this is envops {__version__}, which cannot read this file"
        fix = f"install envops {requires.strip()}: {UPGRADE_TOOL}"
        return Problem(document.file, document.line(("requires",)), message, "requires", requires, fix=fix)
    if isinstance(declared, int) and declared > FORMAT:
        message = f"is the format of a newer envops; this is envops {__version__}, which reads version {FORMAT}"
        return Problem(document.file, document.line(("version",)), message, "version", str(declared), fix=UPGRADE_TOOL)
    return None


def _is_unmet(requires: object) -> bool:
    """Whether this tool is not among the required versions; the check of the keys reports what is not a bound."""
    if not isinstance(requires, str):
        return False
    try:
        return not SpecifierSet(requires).contains(__version__, prereleases=True)
    except InvalidSpecifier:
        return False
