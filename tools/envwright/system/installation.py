"""This copy of the tool as a requirement that installers take, and its extras."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

STARTED_BY = "ENVWRIGHT_STARTED_BY"
"""The variable that noxfile.py sets for the programs that it starts, to `nox`."""
PACKAGE = "envwright"
SOURCE = Path(__file__).resolve().parents[2]
"""The folder of pyproject.toml, for a copy that is not installed."""
Extra = Literal["prime", "prices", "inspect", "store", "train"]


@cache  # half a second, as it reads the metadata of everything that is installed
def distribution_name() -> str:
    """The name of the distribution that this package was installed from: a team may publish it under one of its own."""
    return next(iter(packages_distributions().get(PACKAGE, ())), PACKAGE)


def missing_packages(names: Iterable[str]) -> list[str]:
    """Those that this Python does not have."""
    return [name for name in names if find_spec(name) is None]


def command_with(extra: Extra, command: str) -> str:
    """The command with the packages of an extra, which nox installs itself."""
    if os.environ.get(STARTED_BY) == "nox":
        return f"nox -s envwright -- {command.removeprefix('envwright ')}"
    return f"uvx --from {shlex.quote(requirement(extra))} {command}"


def install_command(extra: Extra) -> str:
    """The command that installs this tool with an extra, in place of the copy on PATH."""
    return f"uv tool install {shlex.quote(requirement(extra))}"


def requirement(extra: Extra | None = None) -> str:
    """This tool with an extra, from where this copy is: its source, or the address, the file or the index it came from.

    The name alone is not taken on the public index yet, so anybody could take it.
    """
    name = distribution_name()
    named = f"{name}[{extra}]" if extra else name
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return f"{named} @ {SOURCE.as_uri()}"
    address = _address(installed)
    return f"{named} @ {address}" if address else f"{named}=={installed.version}"


def installed_from() -> tuple[str, str]:
    """The address and the commit that this tool was installed from (PEP 610); empty where none is recorded.

    For a copy that is not installed, the folder of its source.
    """
    try:
        text = distribution(distribution_name()).read_text("direct_url.json")
    except PackageNotFoundError:
        return SOURCE.as_uri(), ""
    recorded = json.loads(text) if text else {}
    return str(recorded.get("url", "")), str(recorded.get("vcs_info", {}).get("commit_id", ""))


def _address(installed: Distribution) -> str:
    """The address that the installer recorded (PEP 610), without a password; empty for a version of an index."""
    text = installed.read_text("direct_url.json")
    if text is None:
        return ""
    recorded = json.loads(text)
    parts = urlsplit(recorded["url"])
    address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    if source := recorded.get("vcs_info"):
        address = f"{source['vcs']}+{address}@{source.get('requested_revision') or source['commit_id']}"
    return f"{address}#subdirectory={recorded['subdirectory']}" if recorded.get("subdirectory") else address
