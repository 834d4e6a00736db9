"""Which generation of verifiers an environment is written for."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from envops.repository.package import Generation
    from envops.repository.source import Source

_V1_ONLY = Version("0.4.0.dev0")
_FIRST_V1 = Version("0.2.0.dev0")
_RELEASED = (
    "0.1.0",
    "0.1.8",
    "0.1.9",
    "0.1.14",
    "0.2.0",
    "0.2.1",
    "0.3.0",
    "0.3.1",
    "0.3.99",
    "0.4.0",
    "0.5.0",
    "1.0.0",
    "99.0.0",
)


def generation_of(specifier: SpecifierSet | None, source: Source) -> Generation | None:
    """The generation by the bound on verifiers, and by the source where the bound allows both.

    `None` where neither tells.
    """
    old, shared, new = _allowed(str(specifier or ""))
    if new and not old and not shared:
        return "v1"
    if old and not shared and not new:
        return "v0"
    if source.exports_taskset:
        return "v1"
    if source.defines_load_environment:
        return "v0"
    return "v0" if not new else None


@lru_cache(maxsize=1024)
def _allowed(specifier: str) -> tuple[bool, bool, bool]:
    """Whether a version is allowed that has v0 only, one that has both, one that has v1 only."""
    bounds = SpecifierSet(specifier)
    versions = [version for version in _candidates(specifier) if bounds.contains(version, prereleases=True)]
    return (
        any(version < _FIRST_V1 for version in versions),
        any(_FIRST_V1 <= version < _V1_ONLY for version in versions),
        any(version >= _V1_ONLY for version in versions),
    )


def _candidates(specifier: str) -> list[Version]:
    """Known versions, those that the bound names, and their next neighbours."""
    found = [Version(text) for text in _RELEASED]
    for text in re.findall(r"[0-9][0-9A-Za-z.+!]*", specifier):
        try:
            named = Version(text.rstrip("."))
        except InvalidVersion:
            continue
        *leading, last = named.release
        found += [named, Version(".".join(map(str, [*leading, last + 1])))]
        found += [Version(f"{named.base_version}.1"), Version(f"{named.base_version}.post1")]
    return found
