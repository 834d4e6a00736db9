"""The base of a comparison: another package's folder, or the environment at a git revision.

A revision's files are written into a scratch folder straight from git's objects; the work
tree and the index are never touched, and no filter or attribute applies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from envwright.declarations.package import Package
from envwright.declarations.problem import DeclarationError, Problem
from envwright.declarations.registry import EnvironmentEntry, load_registry
from envwright.packages.changes import read_registry_at
from envwright.packages.git import ContentMissing, commit_named, files_at, git, is_shallow, write_files
from envwright.packages.lock import LOCK_FILE
from envwright.packages.read_package import read_package


class NoBase(Exception):
    """There is no base to compare with; `new` if the environment did not exist yet."""

    def __init__(self, message: str, *, new: bool = False) -> None:
        self.new = new
        super().__init__(message)


@dataclass(frozen=True)
class Base:
    """The base of a comparison: a commit, or one package's folder."""

    root: Path
    given: str
    commit: str | None = None
    folder: Path | None = None

    @property
    def label(self) -> str:
        """The base as given on the command line, with its commit."""
        return self.given if self.commit is None else f"{self.given} ({self.commit[:12]})"

    def environment(self, entry: EnvironmentEntry, scratch: Path) -> tuple[EnvironmentEntry, Package]:
        """The environment of this base, written below `scratch` if needed.

        Raises `NoBase` when the base lacks it or it cannot be loaded.
        """
        if self.folder is not None:
            package = _read(self.folder, self.folder.parent, self.given)
            return self._entry_of(package.name, entry), package
        folder = scratch / "environments" / entry.folder_name
        try:
            files = files_at(self.root, str(self.commit), f"environments/{entry.folder_name}")
            write_files(self.root, files, f"environments/{entry.folder_name}", folder)
        except ContentMissing as error:
            raise NoBase(str(error)) from None
        if not files:
            raise NoBase(f"{entry.name} does not exist at {self.label} because it is new", new=True)
        return self._entry_of(entry.name, entry), _read(folder, scratch, self.label)

    def _entry_of(self, name: str, otherwise: EnvironmentEntry) -> EnvironmentEntry:
        """The entry of the base's own registry, or else the current one.

        It gets no variable that the current one does not. A commit may be a stranger's: it runs in this one's sandbox.
        """
        try:
            registry = load_registry(self.root) if self.commit is None else read_registry_at(self.root, self.commit)
        except (DeclarationError, UnicodeDecodeError):
            return replace(otherwise, name=name)
        found = registry.environments.get(name, replace(otherwise, name=name))
        secrets = tuple(secret for secret in found.secrets if secret in otherwise.secrets)
        return replace(found, secrets=secrets, sandbox=otherwise.sandbox if self.commit else found.sandbox)


def find_base(root: Path, given: str) -> Base:
    """Resolve `PATH_OR_REV`: a package's folder if it exists, else a revision.

    Raises `DeclarationError` when it is neither.
    """
    path = Path(given)
    for folder in (path, root / path):
        if (folder / "pyproject.toml").is_file() and (folder.absolute() != root.absolute()):
            return Base(root, given, folder=folder.absolute())
    commit = commit_named(root, given)
    if commit is None:
        raise DeclarationError([_no_such_base(root, given, is_folder=path.is_dir())])
    return Base(root, given, commit=commit)


def _no_such_base(root: Path, given: str, *, is_folder: bool) -> Problem:
    if is_folder:
        message = "is a folder without pyproject.toml, not a package to compare with"
        return Problem(given, None, message, fix="name an environment's folder, or a revision of git")
    if git(root, "rev-parse", "--git-dir").returncode != 0:
        message = "is not a package's folder, and no revision because this is not a git repository"
        return Problem(given, None, message, found=str(root))
    fix = "git fetch origin, or name another base: envwright rewards diff NAME --against BASE"
    if is_shallow(root):
        fix = "the clone is shallow: git fetch --unshallow, or fetch-depth: 0 in actions/checkout"
    return Problem(given, None, "is neither a package's folder nor a known git revision", fix=fix)


def _read(folder: Path, root: Path, label: str) -> Package:
    reading = read_package(folder, root)
    if reading.package is None or not reading.package.files:
        message = "; ".join(f"{problem.file}: {problem.message}" for problem in reading.problems)
        raise NoBase(f"the package at {label} cannot be read: {message}")
    if reading.package.lock is None:
        raise NoBase(f"the package at {label} has no valid {LOCK_FILE}, so its code cannot be run")
    return reading.package
