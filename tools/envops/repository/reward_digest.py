"""A digest of what can change what an environment pays for a reply, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from envops.repository.content import strict_digest

if TYPE_CHECKING:
    from envops.repository.package import Package
    from envops.repository.registry import EnvironmentEntry

_NO_PART = ("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "requirements.lock")


def reward_digest(entry: EnvironmentEntry, package: Package) -> str:
    """`sha256:…` over the package's code and data, the pins of its lock and its arguments.

    Left out are the README, the tests, hidden files and pyproject.toml, so that neither a
    typo nor a new version number makes a recording stale. The same on every Python and platform.
    Raises `OSError`.
    """
    files = tuple(
        name
        for name in package.files
        if name not in _NO_PART and not name.startswith("tests/") and not name.startswith(".")
    )
    pins = package.lock.entries if package.lock else ()
    parts = [strict_digest(package.folder, files), pins, dict(entry.args)]
    text = json.dumps(parts, sort_keys=True, default=str)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
