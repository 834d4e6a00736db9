"""Locks that several environments share: which environments can share one, and the files that are written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.utils import canonicalize_name

from envops.repository.lock import LOCK_FILE, lock_text, parse_content, parse_lock
from envops.repository.package import Package
from envops.repository.problem import DeclarationError
from envops.repository.pyproject import readable_requirement
from envops.repository.shared_lock import NotTogether, RequirementSet, composed, lock_content, naming, shared_path
from envops.system.subprocesses import ProgramFailed
from envops.validation.resolve import inputs_of, oldest_python, resolved_lock, write_changed

Resolve = Callable[[Sequence[str], str, Sequence[str]], str]
"""Requirements, the bound on Python, and entries to agree with → the text of a lock. Raises `ProgramFailed`."""


@dataclass(frozen=True)
class Sharing:
    """The outcome for one environment."""

    package: Package
    changed: bool
    apart: str = ""
    """Why it cannot use the shared lock; empty if it does."""


def resolver(stop: threading.Event, resolution: str = "highest") -> Resolve:
    """The resolution by uv."""
    return lambda requires, python, agreeing: resolved_lock(requires, python, stop, resolution, agreeing)


def share_locks(root: Path, name: str, packages: Sequence[Package], resolve: Resolve) -> Iterator[Sharing]:
    """Move environments to one shared lock, each with the versions that it has where they agree.

    The versions of most environments stay. A set of requirements that has others, or no valid lock, is resolved to
    those; where that is not possible, its environments keep their own locks. Raises `DeclarationError`.
    """
    sets = _sets_of(packages)
    texts: dict[str, str] = {}
    apart: dict[str, str] = {}
    for inputs, users in sets.items():
        text = _current(users, root)
        if text is not None and _is_together([*texts.values(), text]):
            texts[inputs] = text
    for inputs, users in sets.items():
        if inputs not in texts:
            try:
                texts[inputs] = _agreeing(users[0], list(texts.values()), resolve)
            except ProgramFailed as error:
                apart[inputs] = conflict(users[0], [sets[each][0] for each in texts], resolve, error)
    yield from _written(root, name, sets, texts, apart)


def resolve_shared(root: Path, name: str, packages: Sequence[Package], resolve: Resolve) -> Iterator[Sharing]:
    """Resolve a shared lock again, to versions that all of its environments can have.

    Where there are none, the sets of requirements are added one by one, that of most environments first; the others
    get locks of their own. Raises `ProgramFailed` if none can be resolved.
    """
    sets = _sets_of(packages)
    together, apart = _largest(sets, resolve)
    entries = _entries(_union([sets[each][0] for each in together], resolve)) if len(together) > 1 else ()
    texts: dict[str, str] = {}
    for inputs in together:
        first = sets[inputs][0]
        texts[inputs] = resolve(first.requires_to_lock, first.requires_python, entries)
    yield from _written(root, name, sets, texts, apart)


def conflict(package: Package, others: Sequence[Package], resolve: Resolve, error: ProgramFailed) -> str:
    """The two requirements that keep an environment out of a shared lock, or else the message of uv."""
    for text in package.requires_to_lock:
        for other in others:
            for theirs in other.requires_to_lock:
                if theirs != text and _named(theirs) == _named(text) and not _resolves([text, theirs], resolve):
                    return f"{text} of {package.name} and {theirs} of {other.name} exclude each other"
    return " ".join(error.failure.message.split())[:400]


def _sets_of(packages: Sequence[Package]) -> dict[str, list[Package]]:
    """Environments by what they require, the set of most environments first."""
    found: dict[str, list[Package]] = {}
    for package in packages:
        found.setdefault(inputs_of(package), []).append(package)
    return dict(sorted(found.items(), key=lambda one: (-len(one[1]), one[1][0].name)))


def _current(users: Sequence[Package], root: Path) -> str | None:
    """The lock that the environments of a set have now, in the form of a part; `None` if they have no single one."""
    texts: set[str] = set()
    for package in users:
        try:
            path = package.folder / LOCK_FILE
            parsed = parse_content(lock_content(path, root), path, root)
        except DeclarationError:
            continue  # missing or out of date: it takes that of the others, or is resolved
        if not parsed.mistakes and parsed.inputs == inputs_of(package):
            texts.add(lock_text(parsed.inputs, parsed.resolved_from, parsed.requires_python, parsed.pins))
    return texts.pop() if len(texts) == 1 else None


def _agreeing(package: Package, texts: Sequence[str], resolve: Resolve) -> str:
    """A lock whose versions and hashes are those of the given locks, for every package that these have."""
    known = {(pin.name, pin.version): pin.hashes for text in texts for pin in parse_lock(text).pins}
    parsed = parse_lock(resolve(package.requires_to_lock, package.requires_python, _entries("\n".join(texts))))
    # the index may have more files of a version than it had when that was locked
    pins = [replace(pin, hashes=known.get((pin.name, pin.version), pin.hashes)) for pin in parsed.pins]
    return lock_text(parsed.inputs, parsed.resolved_from, parsed.requires_python, pins)


def _entries(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(pin.entry for pin in parse_lock(text).pins))


def _largest(sets: Mapping[str, Sequence[Package]], resolve: Resolve) -> tuple[list[str], dict[str, str]]:
    """The sets that can share a lock, and for each of the others the reason why it cannot."""
    try:
        _union([users[0] for users in sets.values()], resolve)
    except ProgramFailed:
        pass
    else:
        return list(sets), {}
    together: list[str] = []
    apart: dict[str, str] = {}
    for inputs, users in sets.items():
        try:
            _union([*(sets[each][0] for each in together), users[0]], resolve)
        except ProgramFailed as error:
            _union(users[:1], resolve)  # a missing index fails here too, and is not a conflict
            apart[inputs] = conflict(users[0], [sets[each][0] for each in together], resolve, error)
        else:
            together.append(inputs)
    return together, apart


def _union(packages: Sequence[Package], resolve: Resolve) -> str:
    """The text of one lock for all requirements, for the newest of the oldest Pythons of the packages."""
    requires = sorted({text for package in packages for text in package.requires_to_lock})
    oldest = max((oldest_python(package.requires_python) for package in packages), key=_version)
    return resolve(requires, f">={oldest}", ())


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _written(
    root: Path,
    name: str,
    sets: Mapping[str, Sequence[Package]],
    texts: Mapping[str, str],
    apart: Mapping[str, str],
) -> Iterator[Sharing]:
    """Write the shared lock, and then the files that name it."""
    fitting = dict(texts)
    further = dict(apart)
    for inputs in list(fitting)[1:]:
        before = list(fitting)[: list(fitting).index(inputs)]
        try:
            composed([fitting[each] for each in (*before, inputs)])
        except NotTogether as error:
            further[inputs] = str(error)
            del fitting[inputs]
    if fitting:
        write_changed(shared_path(root, name), composed(list(fitting.values())))
    for inputs, users in sets.items():
        for package in users:
            if inputs in fitting:
                text = naming(name, RequirementSet(inputs, fitting[inputs]))
                yield Sharing(package, write_changed(package.folder / LOCK_FILE, text))
            else:
                yield Sharing(package, False, further[inputs])


def _is_together(texts: Sequence[str]) -> bool:
    try:
        composed(texts)
    except NotTogether:
        return False
    return True


def _resolves(requires: Sequence[str], resolve: Resolve) -> bool:
    try:
        resolve(requires, "", ())
    except ProgramFailed:
        return False
    return True


def _named(text: str) -> str:
    requirement = readable_requirement(text)
    return canonicalize_name(requirement.name) if requirement else text
