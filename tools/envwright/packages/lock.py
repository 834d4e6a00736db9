"""requirements.lock: exact versions with hashes, without any trace of the machine.

    # Written by `envwright lock`. Every version is exact, every file has its hash.
    # inputs: sha256:…
    # requires-python: >=3.11
    # requires: datasets>=3
    numpy==2.2.6 ; python_full_version < '3.14' \\
        --hash=sha256:…

The header's digest covers the inputs of the resolution. It detects a lock that does not match its pyproject.toml,
without resolving anything. The requirements below it show the changes since.

A requirement at a git address has the address with the commit in place of a version; the commit serves as its hash.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from packaging.markers import InvalidMarker, Marker
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from envwright.declarations.declared_text import text_of
from envwright.declarations.document import long_number
from envwright.packages.pyproject import readable_requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path


LOCK_FILE = "requirements.lock"

_HEADER = "# Written by `envwright lock`. Every version is exact, every file has its hash."
_INPUTS = re.compile(r"#\s*inputs:\s*(sha256:[0-9a-f]{64})\s*")
_RESOLVED_FROM = re.compile(r"#\s*(requires|requires-python):\s*(.*\S)\s*")
_ENTRY = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?P<extras>\[[A-Za-z0-9._, -]*\])?==(?P<version>[^\s;\\]+)"
    r"\s*(?:;\s*(?P<marker>.*?))?\s*"
)
_COMMIT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?P<extras>\[[A-Za-z0-9._, -]*\])?\s*@\s*"
    r"(?P<address>git\+(?:(?:https|http|file)://|ssh://(?:[\w.-]+@)?)[^\s@;]*@[0-9a-f]{40}(?:#[\w.=&/-]+)?)"
    r"\s*(?:;\s*(?P<marker>.*?))?\s*"
)
"""An entry at a git address, with its commit and without a password."""
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
    is_commit: bool = False
    """Whether `version` is a git address with a commit."""

    @property
    def entry(self) -> str:
        """The entry of the lock, without hashes."""
        between = " @ " if self.is_commit else "=="
        return f"{self.name}{between}{self.version}" + (f" ; {self.marker}" if self.marker else "")

    def applies(self, python: Mapping[str, str]) -> bool:
        """Whether the entry's marker holds for a Python."""
        return not self.marker or Marker(self.marker).evaluate(dict(python))


@dataclass(frozen=True)
class ParsedLock:
    digest: str
    pins: tuple[Pin, ...]
    inputs: str
    line_of_inputs: int
    resolved_from: tuple[str, ...]
    """The requirements in the header; none in a lock that another tool wrote."""
    requires_python: str
    mistakes: tuple[tuple[int, str, str], ...]
    """Line, message, found text."""

    def applicable(self, requires_python: str) -> dict[str, str]:
        """One version for each name: of several with markers, the one for the current Python."""
        python = python_used(requires_python)
        chosen: dict[str, str] = {}
        for pin in self.pins:
            if pin.name not in chosen or pin.applies(python):
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
    """`sha256:…` of the inputs of a lock; order and spacing of requirements don't matter."""
    inputs = {"requires": sorted(map(_canonical, requires)), "requires_python": "".join(requires_python.split())}
    return f"sha256:{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()}"


def render(resolved: str, requires: Iterable[str], requires_python: str) -> str:
    """The text of a requirements.lock from the output of `uv pip compile --generate-hashes` for these requirements.

    Comments, index addresses and options are dropped; entries keep their markers and hashes. Raises
    `ValueError` when an entry is neither an exact version with hashes nor at a commit.
    """
    requires, requires_python = tuple(requires), "".join(requires_python.split())
    kept = []
    for _, text in _logical_lines(resolved):
        if not text.startswith("-"):
            kept.append(text)
    parsed = parse_lock("\n".join(kept))
    if parsed.mistakes:
        line, message, found = parsed.mistakes[0]
        raise ValueError(f"resolved entry {line}: {message}: {found}")
    stated = sorted(map(stated_requirement, requires))
    rows = [_HEADER, f"# inputs: {inputs_digest(requires, requires_python)}"]
    rows += [f"# requires-python: {requires_python}"] if requires_python else []
    rows += [f"# requires: {text}" for text in stated]
    rows += map(with_hashes, sorted(set(parsed.pins), key=lambda pin: (pin.name, pin.version, pin.marker)))
    return "\n".join(rows) + "\n"


def with_hashes(pin: Pin) -> str:
    """An entry as a lock writes it."""
    return " \\\n    ".join([pin.entry, *(f"--hash=sha256:{value}" for value in sorted(pin.hashes))])


@lru_cache(maxsize=64)
def python_used(requires_python: str) -> Mapping[str, str]:
    """The values to evaluate markers with: empty for this Python, or else the oldest Python that is allowed."""
    try:
        admitted = SpecifierSet(requires_python)
    except InvalidSpecifier:
        return {}
    if admitted.contains(".".join(map(str, sys.version_info[:3]))):
        return {}
    versions = (f"3.{minor}.{patch}" for minor in range(11, 30) for patch in (0, 1, 5, 20))
    oldest = next(filter(admitted.contains, versions), None)
    return {"python_version": oldest.rpartition(".")[0], "python_full_version": oldest} if oldest else {}


def _canonical(text: str) -> str:
    requirement = readable_requirement(text)
    if requirement is None:
        return " ".join(text.split())
    return str(requirement).replace(requirement.name, canonicalize_name(requirement.name), 1)


def stated_requirement(text: str) -> str:
    """A requirement as a lock's header writes it."""
    return _without_password(_canonical(text))


_parsed: dict[bytes, ParsedLock] = {}
_MOST_PARSED = 64


def parse_content(content: bytes, path: Path, root: Path) -> ParsedLock:
    """Parsed once per content: many environments of one repository have equal locks.

    Raises `DeclarationError` as `text_of` does.
    """
    key = hashlib.sha256(content).digest()
    if key not in _parsed:
        if len(_parsed) >= _MOST_PARSED:
            _parsed.clear()
        _parsed[key] = parse_lock(text_of(content, path, root))
    return _parsed[key]


def parse_lock(text: str) -> ParsedLock:
    pins: list[Pin] = []
    mistakes: list[tuple[int, str, str]] = []
    inputs = ""
    stated: dict[str, list[str]] = {"requires": [], "requires-python": []}
    for line, row in enumerate(text.split("\n"), start=1):
        if len(row.splitlines()) > 1:
            mistakes.append((line, "contains a character at which uv begins another line", _visible(row)))
        if header := _RESOLVED_FROM.fullmatch(row.strip()):
            stated[header[1]].append(header[2])
        elif "://" in row and not _COMMIT.fullmatch(row.strip()):
            mistakes.append((line, "contains an address", _without_password(row.strip())[:120]))
        if not inputs and (header := _INPUTS.fullmatch(row.strip())):
            inputs = header[1]
    for line, entry in _logical_lines(text):
        commit = _COMMIT.fullmatch(entry)
        if commit or "://" not in entry:
            read = _read_entry(line, entry, commit)
            if isinstance(read, Pin):
                pins.append(read)
            else:
                mistakes.append((line, read, entry[:120]))
    mistakes += _repeated(pins)
    digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    resolved_from, pythons = tuple(stated["requires"]), "".join(stated["requires-python"])
    return ParsedLock(digest, tuple(pins), inputs, _line_of_inputs(text), resolved_from, pythons, tuple(mistakes))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Entries with their first line, without comments, continued lines joined."""
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


def _read_entry(line: int, entry: str, commit: re.Match[str] | None) -> Pin | str:
    """The pin, or the problem of the entry."""
    if entry.startswith("-"):
        return "is an option; only exact versions are allowed"
    if commit:
        marker = commit["marker"] or ""
        if marker and not _is_marker(marker):
            return "has a marker that cannot be read"
        return Pin(canonicalize_name(commit["name"]), commit["address"], marker, (), line, is_commit=True)
    if long_number(entry):
        return "has a number that is too large"
    hashes = tuple(_HASH.findall(entry))
    found = _ENTRY.fullmatch(_HASH.sub("", entry))
    if not found:
        return "is not an exact version with hashes (name==version --hash=sha256:…)"
    if not hashes:
        return "has no hash"
    try:
        Version(found["version"])
    except ValueError:  # also a number of too many digits
        return "is not a version"
    if found["marker"] and not _is_marker(found["marker"]):
        return "has a marker that cannot be read"
    return Pin(canonicalize_name(found["name"]), found["version"], found["marker"] or "", hashes, line)


def _is_marker(text: str) -> bool:
    try:
        Marker(text)
    except (InvalidMarker, RecursionError):
        return False
    return True


def _visible(row: str) -> str:
    return row.strip().encode("unicode_escape").decode()[:120]


def _without_password(text: str) -> str:
    return re.sub(r"(https?://)[^/\s@]+@", r"\1…@", text)


def _repeated(pins: Iterable[Pin]) -> Iterator[tuple[int, str, str]]:
    first: dict[tuple[str, str], Pin] = {}
    for pin in pins:
        known = first.setdefault((pin.name, pin.marker), pin)
        if known is not pin:
            yield pin.line, f"is a duplicate of line {known.line}", pin.entry


def _line_of_inputs(text: str) -> int:
    rows = text.split("\n")
    return next((line for line, row in enumerate(rows, start=1) if _INPUTS.fullmatch(row.strip())), 1)
