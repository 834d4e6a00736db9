"""requirements.lock: exact versions with hashes, and nothing about where it was made.

    # Written by `nox -s lock`. Every version is exact, every file has its hash.
    # inputs: sha256:…
    numpy==2.2.6 ; python_full_version < '3.14' \\
        --hash=sha256:…

The header's digest is that of what the lock was resolved from, so that a lock which no longer
belongs to its pyproject.toml is seen without resolving anything.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from envops.repository.declared_text import read_bytes, relative, text_of
from envops.repository.package import Lock
from envops.repository.problem import DeclarationError, Problem
from envops.repository.pyproject import readable_requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from packaging.specifiers import SpecifierSet

    from envops.repository.pyproject import Pyproject

LOCK_FILE = "requirements.lock"

_HEADER = "# Written by `nox -s lock`. Every version is exact, every file has its hash."
_INPUTS = re.compile(r"#\s*inputs:\s*(sha256:[0-9a-f]{64})\s*")
_ENTRY = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?P<extras>\[[A-Za-z0-9._, -]*\])?==(?P<version>[^\s;\\]+)"
    r"\s*(?:;\s*(?P<marker>.*?))?\s*"
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})(?=\s|$)")


@dataclass(frozen=True)
class Pin:
    """One entry of a lock."""

    name: str
    """Normalised."""
    version: str
    marker: str
    hashes: tuple[str, ...]
    line: int

    @property
    def entry(self) -> str:
        """The entry of the lock, without hashes."""
        return f"{self.name}=={self.version}" + (f" ; {self.marker}" if self.marker else "")

    def applies(self) -> bool:
        """Whether the entry's marker holds for the Python that asks."""
        return not self.marker or Marker(self.marker).evaluate()


@dataclass(frozen=True)
class _Parsed:
    digest: str
    pins: tuple[Pin, ...]
    inputs: str
    line_of_inputs: int
    mistakes: tuple[tuple[int, str, str], ...]
    """Line, message, what was found."""

    @cached_property
    def applicable(self) -> dict[str, str]:
        """One version for each name: where markers distinguish several, the one for this Python."""
        chosen: dict[str, str] = {}
        for pin in self.pins:
            if pin.name not in chosen or pin.applies():
                chosen[pin.name] = pin.version
        return chosen

    @cached_property
    def entries(self) -> tuple[str, ...]:
        """The entries of the lock in order, without hashes."""
        return tuple(sorted(pin.entry for pin in self.pins))

    @cached_property
    def by_name(self) -> dict[str, list[Pin]]:
        """The entries of each name."""
        found: dict[str, list[Pin]] = {}
        for pin in self.pins:
            found.setdefault(pin.name, []).append(pin)
        return found


def inputs_digest(requires: Iterable[str], requires_python: str) -> str:
    """`sha256:…` of what a lock is resolved from; order and spacing of requirements don't matter."""
    inputs = {"requires": sorted(map(_canonical, requires)), "requires_python": "".join(requires_python.split())}
    return f"sha256:{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()}"


def render(resolved: str, inputs: str) -> str:
    """The text of a requirements.lock from what `uv pip compile --generate-hashes` printed.

    Comments, index addresses and options go; entries keep their markers and hashes. Raises
    `ValueError` when an entry is not an exact version with hashes.
    """
    kept = []
    for _, text in _logical_lines(resolved):
        if not text.startswith("-"):
            kept.append(text)
    parsed = _parse("\n".join(kept))
    if parsed.mistakes:
        line, message, found = parsed.mistakes[0]
        raise ValueError(f"resolved entry {line}: {message}: {found}")
    entries = sorted(set(parsed.pins), key=lambda pin: (pin.name, pin.version, pin.marker))
    rows = [_HEADER, f"# inputs: {inputs}"]
    hashed = ([pin.entry, *(f"--hash=sha256:{value}" for value in sorted(pin.hashes))] for pin in entries)
    rows += [" \\\n    ".join(lines) for lines in hashed]
    return "\n".join(rows) + "\n"


def read_lock(folder: Path, root: Path, name: str, pyproject: Pyproject) -> tuple[Lock | None, list[Problem]]:
    """The environment's lock and everything that is wrong with it; `None` where it cannot be used."""
    path = folder / LOCK_FILE
    file, fix = relative(path, root), f"nox -s lock -- {name}"
    if not path.exists() and not path.is_symlink():
        return None, [Problem(file, None, "does not exist", fix=fix)]
    try:
        parsed = _parse_content(read_bytes(path, root), path, root)
    except DeclarationError as error:
        return None, list(error.problems)
    problems = [Problem(file, line, message, found=found, fix=fix) for line, message, found in parsed.mistakes]
    project = pyproject.table("project")
    requires = [text for text in project.get("dependencies", ()) if isinstance(text, str)]
    expected = inputs_digest(requires, str(project.get("requires-python", "")))
    if not parsed.inputs:
        problems.append(Problem(file, 1, "has no line `# inputs: sha256:…`", fix=fix))
    elif parsed.inputs != expected:
        message = "is out of date: the requirements in pyproject.toml changed"
        problems.append(Problem(file, parsed.line_of_inputs, message, found=parsed.inputs, allowed=expected, fix=fix))
    problems += _unsatisfied(pyproject, requires, parsed.by_name, fix)
    return Lock(parsed.digest, parsed.inputs, parsed.applicable, parsed.entries), problems


def _unsatisfied(
    pyproject: Pyproject, requires: Iterable[str], by_name: Mapping[str, Sequence[Pin]], fix: str
) -> Iterator[Problem]:
    for index, text in enumerate(requires):
        requirement = readable_requirement(text)
        if requirement is None or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        key = f"project.dependencies[{index}]"
        candidates = by_name.get(canonicalize_name(requirement.name), [])
        if not candidates:
            yield pyproject.problem(key, "is not in requirements.lock", text, fix=fix)
        elif not any(_allows(requirement.specifier, pin.version) for pin in candidates):
            locked = ", ".join(pin.version for pin in candidates)
            yield pyproject.problem(key, f"is not satisfied by requirements.lock, which has {locked}", text, fix=fix)


def _canonical(text: str) -> str:
    requirement = readable_requirement(text)
    if requirement is None:
        return " ".join(text.split())
    return str(requirement).replace(requirement.name, canonicalize_name(requirement.name), 1)


def _allows(specifier: SpecifierSet, version: str) -> bool:
    try:
        return specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False


_parsed: dict[bytes, _Parsed] = {}
_MOST_PARSED = 64


def _parse_content(content: bytes, path: Path, root: Path) -> _Parsed:
    """Parsed once per content: many environments of one repository have equal locks.

    Raises `DeclarationError` as `text_of` does.
    """
    key = hashlib.sha256(content).digest()
    if key not in _parsed:
        if len(_parsed) >= _MOST_PARSED:
            _parsed.clear()
        _parsed[key] = _parse(text_of(content, path, root))
    return _parsed[key]


def _parse(text: str) -> _Parsed:
    pins: list[Pin] = []
    mistakes: list[tuple[int, str, str]] = []
    inputs = ""
    for line, row in enumerate(text.split("\n"), start=1):
        if "://" in row:
            mistakes.append((line, "contains an address", row.strip()[:120]))
        if not inputs and (header := _INPUTS.fullmatch(row.strip())):
            inputs = header[1]
    for line, entry in _logical_lines(text):
        if "://" not in entry:
            read = _read_entry(line, entry)
            if isinstance(read, Pin):
                pins.append(read)
            else:
                mistakes.append((line, read, entry[:120]))
    mistakes += _repeated(pins)
    digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return _Parsed(digest, tuple(pins), inputs, _line_of_inputs(text), tuple(mistakes))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Entries with their first line: comments gone, continued lines joined."""
    begun, joined = 0, ""
    for line, row in enumerate(text.split("\n"), start=1):
        code = re.sub(r"(^|\s)#.*", "", row).strip()
        if not code:
            continue
        begun = begun or line
        joined = " ".join([joined, *code.removesuffix("\\").split()]).strip()
        if not code.endswith("\\"):
            yield begun, joined
            begun, joined = 0, ""
    if joined:
        yield begun, joined


def _read_entry(line: int, entry: str) -> Pin | str:
    """The pin, or what is wrong with the entry."""
    if entry.startswith("-"):
        return "is an option; only exact versions are allowed"
    hashes = tuple(_HASH.findall(entry))
    found = _ENTRY.fullmatch(_HASH.sub("", entry))
    if not found:
        return "is not an exact version with hashes (name==version --hash=sha256:…)"
    if not hashes:
        return "has no hash"
    try:
        Version(found["version"])
        if found["marker"]:
            Marker(found["marker"])
    except InvalidVersion:
        return "is not a version"
    except (InvalidMarker, RecursionError):
        return "has a marker that cannot be read"
    return Pin(canonicalize_name(found["name"]), found["version"], found["marker"] or "", hashes, line)


def _repeated(pins: Iterable[Pin]) -> Iterator[tuple[int, str, str]]:
    first: dict[tuple[str, str], Pin] = {}
    for pin in pins:
        known = first.setdefault((pin.name, pin.marker), pin)
        if known is not pin:
            yield pin.line, f"is a duplicate of line {known.line}", f"{pin.name}=={pin.version}"


def _line_of_inputs(text: str) -> int:
    rows = text.split("\n")
    return next((line for line, row in enumerate(rows, start=1) if _INPUTS.fullmatch(row.strip())), 1)
