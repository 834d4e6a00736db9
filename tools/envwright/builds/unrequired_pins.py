"""Pins of a lock that no requirement leads to: they would be installed for everyone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from envwright.builds.interpreter import interpreter_for
from envwright.declarations.package import Package
from envwright.packages.pyproject import readable_requirement

_REQUIRES = re.compile(r"^Requires-Dist:[ \t]*(.+?)[ \t\r]*$", re.MULTILINE | re.IGNORECASE)
_NAME = re.compile(r"^Name:[ \t]*(.+?)[ \t\r]*$", re.MULTILINE | re.IGNORECASE)
_Wanted = tuple[str, str]
"""A distribution and one of its extras, or an empty text for the distribution itself."""


def unrequired_pins(package: Package, site_packages: Path) -> tuple[str, ...]:
    """`name==version` of pins that are installed there, and that the package's requirements do not lead to."""
    installed = _requirements_in(site_packages)
    python = _markers_of(package)
    waiting = [each for text in package.requires_to_lock for each in _wanted(text, "", python)]
    reached: set[_Wanted] = set()
    while waiting:
        wanted = waiting.pop()
        if wanted not in reached:
            reached.add(wanted)
            name, extra = wanted
            waiting += [each for text in installed.get(name, ()) for each in _wanted(text, extra, python)]
    names = {name for name, _ in reached}
    pins = package.lock.pins if package.lock else {}
    return tuple(f"{name}=={pins[name]}" for name in sorted(pins) if name in installed and name not in names)


def _wanted(text: str, extra: str, python: dict[str, str]) -> Iterator[_Wanted]:
    """What a requirement of a distribution, or of one of its extras, leads to on this Python."""
    if "extra" in text and not extra and _names_extra(text):
        return
    requirement = readable_requirement(text)
    if requirement is not None and _applies(requirement, extra, python):
        name = canonicalize_name(requirement.name)
        yield name, ""
        yield from ((name, canonicalize_name(each)) for each in requirement.extras)


def _names_extra(text: str) -> bool:
    """Whether a marker is about an extra alone, which is true of nearly all that name one: parsing it takes longer."""
    return re.search(r";\s*extra\s*==\s*['\"][\w.-]+['\"]\s*$", text) is not None


def _applies(requirement: Requirement, extra: str, python: dict[str, str]) -> bool:
    if requirement.marker is None:
        return True
    try:
        return requirement.marker.evaluate({**python, "extra": extra})
    except (UndefinedEnvironmentName, ValueError):  # it cannot be evaluated, so it may apply
        return True


def _markers_of(package: Package) -> dict[str, str]:
    interpreter = interpreter_for(package.requires_python)
    return {"python_version": interpreter.minor, "python_full_version": interpreter.version}


@lru_cache(maxsize=8)  # environments of one lock share it
def _requirements_in(site_packages: Path) -> dict[str, tuple[str, ...]]:
    """Distribution → its requirements, as its metadata states them."""
    found: dict[str, tuple[str, ...]] = {}
    for path in site_packages.glob("*.dist-info/METADATA"):
        headers = path.read_text("utf-8", "replace").partition("\n\n")[0]
        if name := _NAME.search(headers):
            found[canonicalize_name(name[1])] = tuple(_REQUIRES.findall(headers))
    return found
