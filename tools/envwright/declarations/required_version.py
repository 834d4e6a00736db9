"""The versions of the tool that can read a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet

from envwright import __version__
from envwright.declarations.problem import Problem

if TYPE_CHECKING:
    from envwright.declarations.document import Document

FORMAT = 1
"""The version of the format of registry.yaml that this tool reads."""
UPGRADE_TOOL = "uv tool upgrade envwright, or pipx upgrade envwright"


def version_problem(document: Document) -> Problem | None:
    """The problem of a registry that is for another version of the tool.

    It is reported alone, because a newer format and newer keys would only look like mistakes.
    """
    declared, requires = document.data.get("version"), document.data.get("requires")
    if isinstance(requires, str) and (unmet := _unmet(requires)):
        message = f"this is envwright {__version__}, which cannot read this file"
        fix = f"install a version {requires.strip()}: {UPGRADE_TOOL}"
        if all(each.operator.startswith("<") for each in unmet):
            fix = f"install a version {requires.strip()}, or change the bound here for all who work on this repository"
        return Problem(document.file, document.line(("requires",)), message, "requires", requires, fix=fix)
    if isinstance(declared, int) and declared > FORMAT:
        message = f"is the format of a newer envwright; this is envwright {__version__}, which reads version {FORMAT}"
        return Problem(document.file, document.line(("version",)), message, "version", str(declared), fix=UPGRADE_TOOL)
    return None


def _unmet(requires: str) -> list[Specifier]:
    """The bounds that this tool is outside of; the check of the keys reports what is not a bound."""
    try:
        bounds = SpecifierSet(requires)
    except InvalidSpecifier:
        return []
    return [each for each in bounds if not each.contains(__version__, prereleases=True)]
