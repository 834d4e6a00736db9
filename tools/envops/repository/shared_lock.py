"""A lock that several environments share, in `locks/`, and the file of an environment that names it.

    # Written by `envops lock`. …                        locks/NAME.lock
    # set 1: sha256:…
    # set 1 requires-python: >=3.11
    # set 1 requires: verifiers<0.5,>=0.4.0
    # set 2: sha256:…
    # set 2 requires: datasets>=3
    numpy==2.2.6 \\
        --hash=sha256:…
    # of: 2
    pandas==2.3.3 \\
        --hash=sha256:…

A set is what one or more environments require, under the digest of the inputs of a lock. An entry belongs to the sets
that the line above it names, or else to all of them. The part of a set is the text of the lock that its environments
would have by themselves: they install no package of another set.

    # Written by `envops lock`. …                        environments/NAME/requirements.lock
    # inputs: sha256:…
    # content: sha256:…
    -r ../../locks/NAME.lock

`content` is the digest of that part. So the digest of an environment's files changes with the versions and hashes that
it installs, and with no others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from envops.repository.declared_text import leads_inside, read_bytes, relative, text_of
from envops.repository.lock import LOCK_FILE, ParsedLock, Pin, lock_text, parse_lock, with_hashes
from envops.repository.problem import DeclarationError, Problem

if TYPE_CHECKING:
    from pathlib import Path

SHARED_FOLDER = "locks"
SHARED_NAME = r"[a-z0-9]+(?:[._-][a-z0-9]+)*"
LONGEST_NAME = 60
MOST_NAMING_BYTES = 2_000
"""A file that names a shared lock is smaller."""

_NAMING_HEADER = (
    "# Written by `envops lock`. Versions and hashes are in the shared lock below, as the set of these inputs."
)
_SHARED_HEADER = (
    "# Written by `envops lock`. Of several environments: an entry belongs to the sets above it, or to all."
)
_NAMING = re.compile(rf"-r \.\./\.\./{SHARED_FOLDER}/({SHARED_NAME})\.lock")
_CONTENT = re.compile(r"# content: (sha256:[0-9a-f]{64})")
_SET = re.compile(r"# set (\d{1,6}): (sha256:[0-9a-f]{64})")
_SET_STATES = re.compile(r"# set (\d{1,6}) (requires|requires-python): (.*\S)")
_OF = re.compile(r"# of:((?: \d{1,6})+)")


class NotTogether(Exception):
    """Two parts have other versions or hashes of a package; the message names it."""


@dataclass(frozen=True)
class RequirementSet:
    """One set of a shared lock: its inputs, and the part of the lock that belongs to it."""

    inputs: str
    text: str

    @property
    def digest(self) -> str:
        """The digest of the text without its first line, which names the command that wrote it."""
        return f"sha256:{hashlib.sha256(self.text.partition(chr(10))[2].encode()).hexdigest()}"


def shared_path(root: Path, name: str) -> Path:
    """The file of a shared lock."""
    return root / SHARED_FOLDER / f"{name}.lock"


def is_shared_name(name: str) -> bool:
    """Whether a shared lock may have this name."""
    return re.fullmatch(SHARED_NAME, name) is not None and len(name) <= LONGEST_NAME


def naming(name: str, part: RequirementSet) -> str:
    """The text of an environment's lock that names a shared one."""
    rows = (_NAMING_HEADER, f"# inputs: {part.inputs}", f"# content: {part.digest}")
    return "\n".join((*rows, f"-r ../../{SHARED_FOLDER}/{name}.lock")) + "\n"


def composed(texts: Sequence[str]) -> str:
    """The shared lock of these locks, each the text of one set. Raises `NotTogether`."""
    parts = sorted((_parsed(text) for text in set(texts)), key=lambda part: part.inputs)
    _require_together(parts)
    rows = [_SHARED_HEADER]
    owners: dict[Pin, list[int]] = {}
    for number, part in enumerate(parts, start=1):
        rows.append(f"# set {number}: {part.inputs}")
        rows += [f"# set {number} requires-python: {part.requires_python}"] if part.requires_python else []
        rows += [f"# set {number} requires: {text}" for text in part.resolved_from]
        for pin in part.pins:
            owners.setdefault(pin.without_line, []).append(number)
    for pin in sorted(owners, key=lambda pin: (pin.name, pin.version, pin.marker)):
        if len(owners[pin]) < len(parts):
            rows.append(f"# of: {' '.join(map(str, owners[pin]))}")
        rows.append(with_hashes(pin))
    return "\n".join(rows) + "\n"


def shared_name(content: bytes) -> str | None:
    """The shared lock that the content of an environment's lock names; `None` for a lock of its own.

    Raises `ValueError` with what it names if that is not a lock in `locks/`.
    """
    if len(content) > MOST_NAMING_BYTES or b"-r" not in content:
        return None
    rows = [row for row in content.decode("utf-8", "replace").splitlines() if row.strip() and not row.startswith("#")]
    if len(rows) != 1 or not re.match(r"\s*-r", rows[0]):
        return None
    found = _NAMING.fullmatch(rows[0])
    if found is None or not is_shared_name(found[1]):
        raise ValueError(rows[0].strip())
    return found[1]


def lock_content(path: Path, root: Path) -> bytes:
    """The content of an environment's lock: of the file itself, or its part of the shared lock that it names.

    Raises `DeclarationError` if one of them cannot be read, or does not fit the other.
    """
    content = read_bytes(path, root)
    try:
        name = shared_name(content)
    except ValueError as error:
        allowed = f"-r ../../{SHARED_FOLDER}/NAME.lock, with a name of lower-case letters and digits"
        line, found = _line_of(content, b"-r"), str(error)[:120]
        raise _refused(path, root, line, "names no shared lock", found, allowed) from None
    return content if name is None else _part(path, root, content, name)


def _part(path: Path, root: Path, content: bytes, name: str) -> bytes:
    """The part of a shared lock that an environment's file names."""
    text = text_of(content, path, root)
    stated = {row.partition(":")[0]: row.partition(": ")[2] for row in text.splitlines() if row.startswith("# ")}
    inputs, wanted = stated.get("# inputs", ""), _CONTENT.search(text)
    shared = path.parents[2] / SHARED_FOLDER / f"{name}.lock"
    sets = _sets_of(_shared_content(shared, path, root), shared, root)
    part = next((each for each in sets if each.inputs == inputs), None)
    if part is None:
        message = f"{relative(shared, root)} does not cover these requirements"
        raise _refused(path, root, _line_of(content, b"# inputs"), message)
    if wanted is None or wanted[1] != part.digest:
        message = f"{relative(shared, root)} has other content for it: one of the two files was changed by hand"
        raise _refused(path, root, _line_of(content, b"# content"), message, part.digest[:19] + "…")
    return part.text.encode()


def _shared_content(shared: Path, path: Path, root: Path) -> bytes:
    """The content of a shared lock, which no link leads to."""
    for one in (shared.parent, shared):
        if one.is_symlink():
            fix = "replace it with the folder itself" if one == shared.parent else "replace it with the file itself"
            raise DeclarationError([Problem(relative(one, root), None, "is a symbolic link", fix=fix)])
    if not shared.exists():
        message = f"names {relative(shared, root)}, which does not exist"
        raise _refused(path, root, _line_of(path.read_bytes(), b"-r"), message)
    return read_bytes(shared, root if leads_inside(shared, root) else shared.parents[1])


def _refused(path: Path, root: Path, line: int, message: str, found: str = "", allowed: str = "") -> DeclarationError:
    fix = f"nox -s lock -- {path.parent.name.replace('_', '-')}"
    return DeclarationError([Problem(relative(path, root), line, message, found=found, allowed=allowed, fix=fix)])


def _line_of(content: bytes, start: bytes) -> int:
    rows = content.splitlines()
    return next((line for line, row in enumerate(rows, start=1) if row.lstrip().startswith(start)), 1)


def sets_of(path: Path, root: Path) -> tuple[RequirementSet, ...]:
    """The sets of a shared lock. Raises `DeclarationError`."""
    return _sets_of(read_bytes(path, root), path, root)


@lru_cache(maxsize=16)  # once per content: a thousand environments share some
def _sets_of(content: bytes, path: Path, root: Path) -> tuple[RequirementSet, ...]:
    mistakes, sets = _read_sets(text_of(content, path, root))
    if mistakes:
        file = relative(path, root)
        problems = [Problem(file, line, about, found=found, fix="nox -s lock") for line, about, found in mistakes]
        raise DeclarationError(problems)
    return sets


def _read_sets(text: str) -> tuple[tuple[tuple[int, str, str], ...], tuple[RequirementSet, ...]]:
    """The mistakes of a shared lock, and its sets if there are none."""
    parsed = parse_lock(text)
    inputs: dict[int, str] = {}
    stated: dict[int, dict[str, list[str]]] = {}
    of: dict[int, frozenset[int]] = {}
    for line, row in enumerate(text.split("\n"), start=1):
        if found := _SET.fullmatch(row):
            inputs[int(found[1])] = found[2]
        elif found := _SET_STATES.fullmatch(row):
            stated.setdefault(int(found[1]), {}).setdefault(found[2], []).append(found[3])
        elif found := _OF.fullmatch(row):
            of[line + 1] = frozenset(map(int, found[1].split()))
    mistakes = [*parsed.mistakes, *_wrong_sets(parsed, inputs, stated, of)]
    if mistakes:
        return tuple(mistakes), ()
    return (), tuple(
        RequirementSet(
            inputs[number],
            lock_text(
                inputs[number],
                stated.get(number, {}).get("requires", ()),
                "".join(stated.get(number, {}).get("requires-python", ())),
                [pin for pin in parsed.pins if pin.line not in of or number in of[pin.line]],
            ),
        )
        for number in sorted(inputs)
    )


def _wrong_sets(
    parsed: ParsedLock, inputs: Mapping[int, str], stated: Mapping[int, object], of: Mapping[int, frozenset[int]]
) -> Iterator[tuple[int, str, str]]:
    """Line, message and found text of each problem with the sets of a shared lock."""
    if not inputs:
        yield 1, "has no line `# set 1: sha256:…`", ""
    if len(set(inputs.values())) < len(inputs):
        yield 1, "has a set of requirements twice", ""
    if unknown := stated.keys() - inputs.keys():
        yield 1, "states requirements of a set that it does not have", str(min(unknown))
    lines = {pin.line for pin in parsed.pins}
    for line, numbers in of.items():
        if line not in lines:
            yield line - 1, "is not followed by an entry", ""
        elif missing := numbers - inputs.keys():
            yield line - 1, "names a set that is not in this lock", str(min(missing))


def _require_together(parts: Sequence[ParsedLock]) -> None:
    """Raise `NotTogether` if a package would have two versions, or one version two lists of hashes."""
    if len({part.inputs for part in parts}) < len(parts):
        raise NotTogether("equal requirements are locked to different versions")
    first: dict[str, tuple[tuple[str, frozenset[str]], ...]] = {}
    for part in parts:
        for name, pins in part.by_name.items():
            versions = tuple(sorted({(pin.version, frozenset(pin.hashes)) for pin in pins}))
            known = first.setdefault(name, versions)
            if known != versions:
                one, other = sorted(", ".join(version for version, _ in each) for each in (known, versions))
                detail = f"{name} {one} and {other}" if one != other else f"{name} {one} with other hashes"
                raise NotTogether(detail)


def copy_shared_lock(lock: Path, root: Path, target: Path) -> None:
    """Copy the shared lock that an environment's lock names, if it names one, to another repository."""
    name = shared_name(lock.read_bytes())
    if name is not None and root != target:
        (target / SHARED_FOLDER).mkdir(exist_ok=True)
        shared_path(target, name).write_bytes(read_bytes(shared_path(root, name), root))


@lru_cache(maxsize=64)
def _parsed(text: str) -> ParsedLock:
    return parse_lock(text)


def fits(lock: Path, root: Path) -> bool:
    """Whether an environment's lock can be read, with the shared lock that it names if it names one."""
    try:
        lock_content(lock, root)
    except DeclarationError:
        return False
    return True


def users_of(root: Path) -> dict[str, list[Path]]:
    """Each shared lock that environments name, and their folders."""
    found: dict[str, list[Path]] = {}
    for path in sorted((root / "environments").glob(f"*/{LOCK_FILE}")):
        try:
            if path.is_symlink() or path.stat().st_size > MOST_NAMING_BYTES:
                continue
            name = shared_name(path.read_bytes())
        except (OSError, ValueError):  # reported when the environment is read
            continue
        if name is not None:
            found.setdefault(name, []).append(path.parent)
    return found
