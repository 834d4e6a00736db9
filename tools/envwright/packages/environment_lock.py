"""The lock of an environment, and its problems.

`[tool.uv.sources]` is uv's own table. uv reads it for a project, but not for a list of requirements. So each address is
written into its requirement here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from envwright.declarations.declared_text import read_bytes, relative
from envwright.declarations.package import Lock
from envwright.declarations.problem import DeclarationError, Problem
from envwright.packages.lock import (
    LOCK_FILE,
    ParsedLock,
    Pin,
    inputs_digest,
    parse_content,
    python_used,
    stated_requirement,
    with_hashes,
)
from envwright.packages.pyproject import readable_requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from packaging.requirements import Requirement

    from envwright.packages.pyproject import Pyproject

_SSH_AS_GIT_WRITES_IT = re.compile(r"(?P<user>[\w.-]+@[\w.-]+):(?!//)(?P<path>.+)")


def installable(lock: Path) -> str:
    """The text that an installer reads in place of a lock: the entries that this parser found, and nothing else.

    Another parser could find more in the file. Raises `DeclarationError` and `ValueError`.
    """
    parsed = parse_content(read_bytes(lock, lock.parent), lock, lock.parent)
    if parsed.mistakes:
        line, message, found = parsed.mistakes[0]
        raise ValueError(f"{lock.name}:{line} {message}: {found}")
    return "".join(f"{with_hashes(pin)}\n" for pin in parsed.pins)


def read_lock(folder: Path, root: Path, name: str, pyproject: Pyproject) -> tuple[Lock | None, list[Problem]]:
    """The environment's lock and its problems; `None` if it cannot be used."""
    path = folder / LOCK_FILE
    file, fix = relative(path, root), f"envwright lock {name}"
    if not path.exists() and not path.is_symlink():
        return None, [Problem(file, None, "does not exist", fix=fix)]
    try:
        parsed = parse_content(read_bytes(path, root), path, root)
    except DeclarationError as error:
        return None, list(error.problems)
    problems = [Problem(file, line, message, found=found, fix=fix) for line, message, found in parsed.mistakes]
    requires = requirements_to_lock(pyproject)
    requires_python = str(pyproject.table("project").get("requires-python", ""))
    changes: list[str] = []
    if not parsed.inputs:
        problems.append(Problem(file, 1, "has no line `# inputs: sha256:…`", fix=fix))
    elif parsed.inputs != inputs_digest(requires, requires_python):
        changes = list(_changes(parsed, requires, requires_python)) if parsed.resolved_from else []
        problems.append(Problem(file, parsed.line_of_inputs, "is out of date", found="; ".join(changes), fix=fix))
    if not changes:
        problems += _unsatisfied(pyproject, parsed.by_name, python_used(requires_python), fix)
    return Lock(parsed.digest, parsed.inputs, parsed.applicable(requires_python), parsed.entries), problems


def _changes(parsed: ParsedLock, requires: Iterable[str], requires_python: str) -> Iterator[str]:
    """The differences between the requirements of a lock and the current ones."""
    before, now = _by_name(parsed.resolved_from), _by_name(map(stated_requirement, requires))
    for name in sorted(before.keys() | now.keys()):
        was, is_now = before.get(name), now.get(name)
        if was is None:
            yield f"{is_now} is new"
        elif is_now is None:
            yield f"{was} is gone"
        elif was != is_now:
            yield f"{is_now} was {was}"
    python = "".join(requires_python.split())
    if parsed.requires_python != python:
        yield f"requires-python {python or 'nothing'} was {parsed.requires_python or 'nothing'}"


def _by_name(requires: Iterable[str]) -> dict[str, str]:
    """The requirements of each name in a form that does not depend on their order."""
    found: dict[str, list[str]] = {}
    for text in requires:
        requirement = readable_requirement(text)
        found.setdefault(canonicalize_name(requirement.name) if requirement else text, []).append(text)
    return {name: ", ".join(sorted(texts)) for name, texts in found.items()}


def _unsatisfied(
    pyproject: Pyproject, by_name: Mapping[str, Sequence[Pin]], python: Mapping[str, str], fix: str
) -> Iterator[Problem]:
    requires = pyproject.table("project").get("dependencies", ())
    for index, text in enumerate(requires if isinstance(requires, list) else ()):
        requirement = readable_requirement(text) if isinstance(text, str) else None
        if requirement is None or (requirement.marker and not requirement.marker.evaluate({**python, "extra": ""})):
            continue
        key = f"project.dependencies[{index}]"
        candidates = by_name.get(canonicalize_name(requirement.name), [])
        if not candidates:
            yield pyproject.problem(key, "is not in requirements.lock", text, fix=fix)
        elif not any(pin.is_commit or _allows(requirement.specifier, pin.version) for pin in candidates):
            locked = ", ".join(pin.version for pin in candidates)
            yield pyproject.problem(key, f"is not satisfied by requirements.lock, which has {locked}", text, fix=fix)


def _allows(specifier: SpecifierSet, version: str) -> bool:
    try:
        return specifier.contains(Version(version), prereleases=True)
    except ValueError:
        return False


def requirements_to_lock(pyproject: Pyproject) -> tuple[str, ...]:
    """The package's requirements, in which a source that is a git repository is the requirement's address."""
    sources = _sources(pyproject)
    return tuple(located for text in _requires(pyproject) for located in _located(text, sources))


def sources_left_out(pyproject: Pyproject) -> tuple[str, ...]:
    """Requirements with a source other than a git repository: a folder or an index. They lock from the usual index."""
    requirements = map(readable_requirement, _requires(pyproject))
    names = {canonicalize_name(requirement.name) for requirement in requirements if requirement}
    return tuple(name for name, found in _sources(pyproject).items() if name in names and not any(map(_is_git, found)))


def _requires(pyproject: Pyproject) -> list[str]:
    requires = pyproject.table("project").get("dependencies", ())
    return [text for text in requires if isinstance(text, str)] if isinstance(requires, list) else []


def _sources(pyproject: Pyproject) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for name, declared in pyproject.table("tool", "uv", "sources").items():
        several = declared if isinstance(declared, list) else [declared]
        found[canonicalize_name(name)] = [each for each in several if isinstance(each, dict)]
    return found


def _is_git(source: Mapping[str, Any]) -> bool:
    return isinstance(source.get("git"), str)


def _located(text: str, sources: Mapping[str, list[Mapping[str, Any]]]) -> Iterator[str]:
    requirement = readable_requirement(text)
    found = sources.get(canonicalize_name(requirement.name), []) if requirement else []
    repositories = [source for source in found if _is_git(source)]
    if requirement is None or requirement.url or not repositories:
        yield text
        return
    for source in repositories:
        yield _at(requirement, source)


def _at(requirement: Requirement, source: Mapping[str, Any]) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    markers = [str(marker) for marker in (requirement.marker, source.get("marker")) if marker]
    marker = " and ".join(f"({each})" for each in markers) if len(markers) > 1 else "".join(markers)
    return f"{requirement.name}{extras} @ {_address(source)}" + (f" ; {marker}" if marker else "")


def _address(source: Mapping[str, Any]) -> str:
    url = str(source["git"])
    if found := _SSH_AS_GIT_WRITES_IT.fullmatch(url):
        url = f"ssh://{found['user']}/{found['path']}"
    revision = next((str(source[key]) for key in ("rev", "tag", "branch") if source.get(key)), "")
    folder = source.get("subdirectory")
    address = url if url.startswith("git+") else f"git+{url}"
    return address + (f"@{revision}" if revision else "") + (f"#subdirectory={folder}" if folder else "")
