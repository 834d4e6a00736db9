"""The reviewers of an adopted environment, if the command line names none."""

from __future__ import annotations

import re
from pathlib import Path

from envwright.authoring.new.write import usual_owners
from envwright.declarations.codeowners import PLACES
from envwright.declarations.registry import Registry
from envwright.declarations.registry_values import OWNER
from envwright.packages.git import git
from envwright.packages.repository import ENVIRONMENTS_FOLDER


def default_owners(registry: Registry, root: Path) -> tuple[str, ...]:
    """The owners of most environments; else those of CODEOWNERS; else the mail address that git commits with."""
    if usual := usual_owners(registry):
        return usual
    for place in PLACES:
        if (root / place).is_file() and (named := _of_environments((root / place).read_text("utf-8", "replace"))):
            return named
    address = git(root, "config", "user.email").stdout.decode(errors="replace").strip()
    return (address,) if re.match(OWNER, address) else ()


def _of_environments(text: str) -> tuple[str, ...]:
    """The owners of the environments' folder, or of everything: of several lines the last one, as on GitHub."""
    found: tuple[str, ...] = ()
    for line in text.splitlines():
        pattern, *owners = line.partition("#")[0].split() or [""]
        first = pattern.strip("/").partition("/")[0]
        if first in (ENVIRONMENTS_FOLDER, "*") and owners and all(re.match(OWNER, owner) for owner in owners):
            found = tuple(dict.fromkeys(owners))
    return found
