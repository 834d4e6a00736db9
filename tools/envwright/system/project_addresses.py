"""Addresses of this project, which pyproject.toml declares in `project.urls`."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata

from envwright.system.installation import SOURCE, distribution_name


@cache
def project_address(name: str) -> str:
    """The address of that name; empty if none is declared."""
    return _declared_beside(name) or _declared_when_installed(name)


def _declared_beside(name: str) -> str:
    """What the source tree declares, if this code runs from it."""
    try:
        declared = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    project = declared.get("project", {})
    return str(project.get("urls", {}).get(name, ""))


def _declared_when_installed(name: str) -> str:
    try:
        urls = metadata(distribution_name()).get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    named = (url.partition(", ") for url in urls)
    return next((address for each, _, address in named if each == name), "")
