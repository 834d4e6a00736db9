"""registry.yaml before its keys are checked: the versions that can read it, and names as PEP 503 compares them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from envwright import __version__
from envwright.declarations.document import Document, Steps, place
from envwright.declarations.problem import Problem
from envwright.declarations.registry_values import ENVIRONMENT_NAME

FORMAT = 1
"""The version of the format of registry.yaml that this tool reads."""
UPGRADE_TOOL = "uv tool upgrade envwright, or pipx upgrade envwright"


def with_canonical_names(document: Document) -> Document:
    """The registry with each environment's name in its normal form, in its declaration and in runs.

    A name that occurs twice is a problem of the document.
    """
    data = document.data
    declared = data.get("environments")
    if not isinstance(declared, dict):
        return document
    canonical: dict[str, str] = {
        name: canonicalize_name(name) for name in declared if re.search(ENVIRONMENT_NAME, name)
    }
    problems = list(_repeated(document, canonical))
    environments = {str(canonical.get(name, name)): entry for name, entry in declared.items()}
    renamed = {**data, "environments": environments}
    if isinstance(runs := data.get("runs"), dict):
        renamed["runs"] = {name: _with_names_in_run(run, set(environments)) for name, run in runs.items()}
    lines: dict[Steps, int] = {}
    for steps, line in document.lines.items():
        if len(steps) > 1 and steps[0] == "environments":
            steps = ("environments", canonical.get(str(steps[1]), steps[1]), *steps[2:])
        lines[steps] = line
    return Document(document.file, renamed, lines, (*document.problems, *problems))


def _repeated(document: Document, canonical: Mapping[str, str]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for name, form in canonical.items():
        known = first.setdefault(form, name)
        if known is not name:
            steps: Steps = ("environments", name)
            message = f"is the same name as {known}, on line {document.line(('environments', known))}"
            yield Problem(document.file, document.line(steps), message, place(steps), name, fix="keep one of them")


def _with_names_in_run(run: Any, names: set[str]) -> Any:
    """The run with the ids of sources that name an environment in another form."""
    if not isinstance(run, dict):
        return run
    changed = dict(run)
    if isinstance(run.get("environments"), list):
        changed["environments"] = [_named(source, names) for source in run["environments"]]
    if "eval" in run:
        changed["eval"] = _with_names_in_run(run["eval"], names)
    return changed


def _named(source: Any, names: set[str]) -> Any:
    used = source.get("id") if isinstance(source, dict) else None
    if not isinstance(used, str) or used in names or canonicalize_name(used) not in names:
        return source
    return {**source, "id": canonicalize_name(used)}


def version_problem(document: Document) -> Problem | None:
    """The problem of a registry that is for another version of the tool.

    It is reported alone, because a newer format and newer keys would only look like mistakes.
    """
    declared, requires = document.data.get("version"), document.data.get("requires")
    if isinstance(requires, str) and (unmet := _unmet(requires)):
        message = f"this is envwright {__version__}, which cannot read this file"
        fix = f"install a version {requires.strip()}: {UPGRADE_TOOL}"
        if all(map(_is_exceeded, unmet)):
            fix = f"install a version {requires.strip()}, or change the bound here for all who work on this repository"
        return Problem(document.file, document.line(("requires",)), message, "requires", requires, fix=fix)
    if isinstance(declared, int) and declared > FORMAT:
        message = f"is the format of a newer envwright; this is envwright {__version__}, which reads version {FORMAT}"
        return Problem(document.file, document.line(("version",)), message, "version", str(declared), fix=UPGRADE_TOOL)
    return None


def _is_exceeded(bound: Specifier) -> bool:
    """Whether this tool is too new for a bound, so that an upgrade does not help."""
    exceeded = bound.operator in ("<", "<=", "==", "~=")
    return exceeded and Version(bound.version.removesuffix(".*")) <= Version(__version__)


def _unmet(requires: str) -> list[Specifier]:
    """The bounds that this tool is outside of; the check of the keys reports what is not a bound."""
    try:
        bounds = SpecifierSet(requires)
    except InvalidSpecifier:
        return []
    return [bound for bound in bounds if not bound.contains(__version__, prereleases=True)]
