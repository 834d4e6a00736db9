"""Generations and Pythons that each release of verifiers supports.

As measured on the releases themselves: v0 ends with 0.3, one v1 code path works from 0.2.1 on.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.repository.package import Generation

FIRST_V1 = Version("0.2.1")
FIRST_WITHOUT_V0 = Version("0.4")
PYTHON_OF_RELEASE = (
    (Version("0"), SpecifierSet(">=3.10,<3.14")),
    (Version("0.2"), SpecifierSet(">=3.11,<3.14")),
    (Version("0.4"), SpecifierSet(">=3.11,<3.15")),
)
"""First release of a row → the Pythons that it and the following ones run on."""
PYTHONS = tuple(Version(f"3.{minor}.0") for minor in range(8, 21))
_BEFORE_V1 = ("0.1.0", "0.1.3", "0.1.5", "0.1.8.post2", "0.1.9.post3", "0.1.14", "0.2.0")
_BOTH = ("0.2.1", "0.2.2", "0.3.0", "0.3.1", "0.3.9")
_WITHOUT_V0 = ("0.4.0", "0.4.1", "0.5.0", "0.9.0", "1.0.0", "2.0.0", "10.0.0")
_PROBES = tuple(Version(text) for text in (*_BEFORE_V1, *_BOTH, *_WITHOUT_V0))
"""Releases, some still to come, on which a requirement is tried."""
_BOUNDING = {"<", "<=", "==", "===", "~="}


def verifiers_requirement(requires: tuple[str, ...]) -> Requirement | None:
    """The requirement on verifiers, `None` where there is none."""
    for text in requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if canonicalize_name(requirement.name) == "verifiers":
            return requirement
    return None


def is_bounded_above(requirement: Requirement) -> bool:
    """Whether some later release will not satisfy the requirement."""
    return requirement.url is None and any(part.operator in _BOUNDING for part in requirement.specifier)


def misfit(requirement: Requirement, generation: Generation) -> str | None:
    """A release that the requirement admits and that lacks the generation, or that none is admitted."""
    admitted = list(requirement.specifier.filter(sorted(_probes(requirement)), prereleases=True))
    if not admitted:
        return None
    fits = [_has(version, generation) for version in admitted]
    wrong = [str(version) for version, right in zip(admitted, fits, strict=True) if not right]
    if not wrong:
        return None
    return f"admits only releases such as {wrong[-1]}" if not any(fits) else f"admits {wrong[0]}"


def _has(version: Version, generation: Generation) -> bool:
    release = Version(version.base_version)
    return release < FIRST_WITHOUT_V0 if generation == "v0" else release >= FIRST_V1


def _probes(requirement: Requirement) -> Iterator[Version]:
    yield from _PROBES
    for part in requirement.specifier:
        try:
            yield Version(part.version.removesuffix(".*"))
        except InvalidVersion:
            continue


def python_of(version: str) -> SpecifierSet | None:
    """The Pythons that a release of verifiers runs on; `None` when the version is not one."""
    try:
        release = Version(version)
    except InvalidVersion:
        return None
    return [pythons for first, pythons in PYTHON_OF_RELEASE if release >= first][-1]


@lru_cache(maxsize=256)
def pythons_admitted(requires_python: str) -> tuple[Version, ...] | None:
    """The minor versions of Python that a `requires-python` admits; `None` when it does not parse."""
    try:
        specifier = SpecifierSet(requires_python)
    except InvalidSpecifier:
        return None
    return tuple(version for version in PYTHONS if _admits(specifier, version))


def _admits(specifier: SpecifierSet, minor: Version) -> bool:
    """Whether any patch release of a minor version is admitted."""
    return any(specifier.contains(f"{minor.major}.{minor.minor}.{patch}") for patch in (0, 1, 5, 20))
