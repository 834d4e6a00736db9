"""What an environment is compared with: another package's folder, or its own at a revision of git.

A revision's files are written into a scratch folder straight from git's objects; the work
tree and the index are never touched, and filters and attributes have no say.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from envops.declare.document import parse_document
from envops.declare.lock import LOCK_FILE
from envops.declare.package import Package
from envops.declare.problem import DeclarationError, Problem
from envops.declare.reading import read_package
from envops.declare.registry import REGISTRY_FILE, EnvironmentEntry, Registry, load_registry, registry_of

_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
"""Variables that git sets for a hook; they would point it at something else than the root."""


class NoBase(Exception):
    """There is nothing to compare with, and why; `new` where the environment did not exist yet."""

    def __init__(self, message: str, *, new: bool = False) -> None:
        self.new = new
        super().__init__(message)


@dataclass(frozen=True)
class Base:
    """The other side of a comparison: a commit, or one package's folder."""

    root: Path
    given: str
    commit: str | None = None
    folder: Path | None = None

    @property
    def label(self) -> str:
        """As it was given, with the commit that it stands for."""
        return self.given if self.commit is None else f"{self.given} ({self.commit[:12]})"

    def environment(self, entry: EnvironmentEntry, scratch: Path) -> tuple[EnvironmentEntry, Package]:
        """The environment as it is here, written below `scratch` where that is needed.

        Raises `NoBase` when it is not here or cannot be loaded from here.
        """
        if self.folder is not None:
            package = _read(self.folder, self.folder.parent, self.given)
            return self._entry_of(package.name, entry), package
        folder = scratch / "environments" / entry.folder_name
        files = _files_at(self.root, str(self.commit), f"environments/{entry.folder_name}")
        if not files:
            raise NoBase(f"{entry.name} does not exist at {self.label}: it is new", new=True)
        _write_files(self.root, files, f"environments/{entry.folder_name}", folder)
        return self._entry_of(entry.name, entry), _read(folder, scratch, self.label)

    def _entry_of(self, name: str, otherwise: EnvironmentEntry) -> EnvironmentEntry:
        """How the base's own registry declares it; where it does not, as it is declared here."""
        try:
            registry = load_registry(self.root) if self.commit is None else _registry_at(self.root, self.commit)
        except (DeclarationError, UnicodeDecodeError):
            return replace(otherwise, name=name)
        return registry.environments.get(name, replace(otherwise, name=name))


def find_base(root: Path, given: str) -> Base:
    """What `PATH_OR_REV` means: a package's folder where there is one, else a revision.

    Raises `DeclarationError` when it is neither.
    """
    path = Path(given)
    for folder in (path, root / path):
        if (folder / "pyproject.toml").is_file() and (folder.absolute() != root.absolute()):
            return Base(root, given, folder=folder.absolute())
    commit = _commit(root, given)
    if commit is None:
        raise DeclarationError([_no_such_base(root, given, is_folder=path.is_dir())])
    return Base(root, given, commit=commit)


def _no_such_base(root: Path, given: str, *, is_folder: bool) -> Problem:
    if is_folder:
        message = "is a folder without pyproject.toml, so no package to compare with"
        return Problem(given, None, message, fix="name an environment's folder, or a revision of git")
    if _git(root, "rev-parse", "--git-dir").returncode != 0:
        message = "is no package's folder, and there is no git repository here whose revision it could be"
        return Problem(given, None, message, found=str(root))
    fix = "git fetch origin, or name another base: nox -s rewards -- NAME --against BASE"
    if _git(root, "rev-parse", "--is-shallow-repository").stdout.strip() == b"true":
        fix = "the clone is shallow: git fetch --unshallow, or fetch-depth: 0 in actions/checkout"
    return Problem(given, None, "is neither a package's folder nor a revision that git knows here", fix=fix)


def _commit(root: Path, name: str) -> str | None:
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return found.stdout.decode().split()[-1] if found.returncode == 0 else None


def _read(folder: Path, root: Path, label: str) -> Package:
    reading = read_package(folder, root)
    if reading.package is None or not reading.package.files:
        said = "; ".join(f"{problem.file}: {problem.message}" for problem in reading.problems)
        raise NoBase(f"the package at {label} cannot be read: {said}")
    if reading.package.lock is None:
        raise NoBase(f"the package at {label} has no {LOCK_FILE} that can be used, so its code cannot be run")
    return reading.package


@dataclass(frozen=True)
class _File:
    """One entry of a tree of git's."""

    mode: str
    object: str
    path: str


def _files_at(root: Path, commit: str, folder: str) -> list[_File]:
    listed = _git(root, "ls-tree", "-r", "-z", commit, "--", f"{folder}/")
    if listed.returncode != 0:
        raise NoBase(f"git cannot list {folder} at {commit[:12]}: {listed.stderr.decode(errors='replace').strip()}")
    files = []
    for entry in filter(None, listed.stdout.split(b"\0")):
        about, _, path = entry.partition(b"\t")
        mode, kind, name = about.decode().split()
        if kind == "blob":
            files.append(_File(mode, name, os.fsdecode(path)))
    return files


def _write_files(root: Path, files: list[_File], folder: str, target: Path) -> None:
    for file, content in zip(files, _contents(root, files), strict=True):
        inside = PurePosixPath(file.path).relative_to(folder)
        path = target / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == "120000":
            path.symlink_to(os.fsdecode(content))
        else:
            path.write_bytes(content)
            path.chmod(0o755 if file.mode == "100755" else 0o644)


def _contents(root: Path, files: list[_File]) -> Iterator[bytes]:
    """What the files hold, by one call of git for all of them."""
    wanted = "".join(f"{file.object}\n" for file in files).encode()
    answer = _git(root, "cat-file", "--batch", sends=wanted)
    rest = memoryview(answer.stdout)
    for file in files:
        header, _, _ = bytes(rest[:200]).partition(b"\n")
        fields = header.split()
        if len(fields) != 3:
            raise NoBase(f"git does not have the content of {file.path}: fetch it, or unshallow the clone")
        start, size = len(header) + 1, int(fields[2])
        yield bytes(rest[start : start + size])
        rest = rest[start + size + 1 :]


def _registry_at(root: Path, commit: str) -> Registry:
    shown = _git(root, "show", f"{commit}:./{REGISTRY_FILE}")
    return registry_of(parse_document(shown.stdout.decode(), REGISTRY_FILE))


def _git(root: Path, *arguments: str, sends: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if name not in _OF_A_HOOK}
    try:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, env=kept, check=False, input=sends
        )
    except FileNotFoundError:
        raise DeclarationError([Problem(".git", None, "git is not installed", fix="install git")]) from None
