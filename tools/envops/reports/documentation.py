"""Addresses of the documentation, which reports link to. pyproject.toml declares where it is."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from envops.rules.engine import all_rules

DECLARED = "Documentation"
"""The name of its address in `project.urls`."""


@cache
def documentation_address() -> str:
    """The address of the documentation, with a slash at its end; empty if none is declared."""
    address = _declared_beside() or _declared_when_installed()
    return f"{address.rstrip('/')}/" if address else ""


def rule_address(rule: str) -> str:
    """The page of a rule; empty for what is not a rule of this version."""
    return f"{documentation_address()}rules/{rule}.html" if documentation_address() and rule in all_rules() else ""


def linked(style: str, rule: str) -> str:
    """A style of text on a terminal, as a link to the page of a rule."""
    address = rule_address(rule)
    return f"{style} link {address}" if address else style


def _declared_beside() -> str:
    """What the source tree declares, if this code runs from it."""
    try:
        declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    project = declared.get("project", {})
    return str(project.get("urls", {}).get(DECLARED, "")) if project.get("name") == "envops" else ""


def _declared_when_installed() -> str:
    try:
        urls = metadata("envops").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    named = (url.partition(", ") for url in urls)
    return next((address for name, _, address in named if name == DECLARED), "")
