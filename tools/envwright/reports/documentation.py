"""Addresses of the documentation, which reports link to. pyproject.toml declares where it is."""

from __future__ import annotations

from functools import cache

from envwright.rules.engine import all_rules
from envwright.system.project_addresses import project_address

DECLARED = "Documentation"
"""The name of its address in `project.urls`."""


@cache
def documentation_address() -> str:
    """The address of the documentation, with a slash at its end; empty if none is declared."""
    address = project_address(DECLARED)
    return f"{address.rstrip('/')}/" if address else ""


def rule_address(rule: str) -> str:
    """The page of a rule; empty for what is not a rule of this version."""
    return f"{documentation_address()}rules/{rule}.html" if documentation_address() and rule in all_rules() else ""


def linked(style: str, rule: str) -> str:
    """A style of text on a terminal, as a link to the page of a rule."""
    address = rule_address(rule)
    return f"{style} link {address}" if address else style
