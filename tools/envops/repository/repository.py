"""The whole declaration: registry.yaml and every environment in the repository."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from envops.repository.content import list_content
from envops.repository.problem import DeclarationError, Problem, nearest
from envops.repository.read_packages import read_packages
from envops.repository.registry import REGISTRY_FILE, Registry, load_registry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from envops.repository.package import Package

ENVIRONMENTS_FOLDER = "environments"


@dataclass(frozen=True)
class Repository:
    """The declarations of this repository, read and checked."""

    root: Path
    registry: Registry
    packages: Mapping[str, Package]
    """By distribution name, in the order of the registry."""

    @classmethod
    def load(
        cls,
        root: Path,
        names: Iterable[str] | None = None,
        *,
        only: Collection[str] | None = None,
        with_locks: bool = True,
    ) -> Repository:
        """Read the registry and the environments below `root`, or only those named.

        With `names` the folders of other environments are not looked at, so a mistake in one
        does not stop work on another. With `only` the registry is held against all folders, and
        of these the ones that belong to these names are read. Without `with_locks` the locks are
        not looked at.

        Raises `DeclarationError` with every problem that was found.
        """
        root = root.resolve()
        registry, problems = _read_registry(root)
        if names is not None and problems:
            raise DeclarationError(problems)
        chosen = (
            None if names is None else {registry.environments[name].folder_name for name in _chosen(registry, names)}
        )
        folders, found = _folders(root)
        problems += found
        packages: dict[str, Package] = {}
        read = chosen if only is None else {name.replace("-", "_") for name in only}
        wanted = [folder for name, folder in folders.items() if read is None or name in read]
        for reading in read_packages(wanted, root, with_locks=with_locks):
            problems += reading.problems
            if reading.package:
                problems += _taken(reading.package, packages, root)
                packages.setdefault(reading.package.name, reading.package)
        if registry.owner:
            problems += _mismatches(registry, root, folders, chosen)
        if problems:
            raise DeclarationError(problems)
        return cls(root, registry, {name: packages[name] for name in registry.environments if name in packages})

    def select(self, names: Iterable[str] = ()) -> tuple[str, ...]:
        """Environments of this repository by distribution name or folder; all for no names.

        Raises `DeclarationError` for a name that is not one of them.
        """
        return _chosen(self.registry, names)


def _chosen(registry: Registry, names: Iterable[str]) -> tuple[str, ...]:
    by_name = {form: name for name, entry in registry.environments.items() for form in (entry.folder_name, name)}
    problems, chosen = [], []
    for name in names:
        known = by_name.get(name.removeprefix(f"{ENVIRONMENTS_FOLDER}/").removesuffix("/"))
        if known:
            chosen.append(known)
        elif name in registry.external:
            message = "is on the Hub only: its code is not in this repository"
            problems.append(Problem(REGISTRY_FILE, registry.external[name].line, message, found=name))
        else:
            allowed = ", ".join(registry.environments)
            message = "there is no environment of this name"
            near = nearest(name, registry.environments)
            problems.append(Problem(REGISTRY_FILE, None, message, found=name, allowed=allowed, nearest=near))
    if problems:
        raise DeclarationError(problems)
    order = list(registry.environments)
    return tuple(sorted(set(chosen), key=order.index)) if chosen else tuple(order)


def _read_registry(root: Path) -> tuple[Registry, list[Problem]]:
    try:
        return load_registry(root), []
    except DeclarationError as error:
        return Registry("", {}), list(error.problems)


def _folders(root: Path) -> tuple[dict[str, Path], list[Problem]]:
    """Folders below environments/ by name; what cannot be one is a problem, what is empty is passed over."""
    parent = root / ENVIRONMENTS_FOLDER
    if parent.is_symlink():
        return {}, [Problem(ENVIRONMENTS_FOLDER, None, "is a symbolic link", fix="replace it with the folder itself")]
    if not parent.is_dir():
        return {}, []
    folders, problems = {}, []
    for entry in sorted(parent.iterdir()):
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        if entry.is_symlink():
            file = f"{ENVIRONMENTS_FOLDER}/{entry.name}"
            problems.append(Problem(file, None, "is a symbolic link", fix="replace it with the folder itself"))
        elif entry.is_dir() and ((entry / "pyproject.toml").exists() or list_content(entry, root).files):
            folders[entry.name] = entry
    return folders, problems


def _taken(package: Package, packages: Mapping[str, Package], root: Path) -> Iterator[Problem]:
    first = packages.get(package.name)
    if first:
        file = (package.folder / "pyproject.toml").relative_to(root).as_posix()
        message = f"is also the name of {first.folder.relative_to(root).as_posix()}"
        line = package.lines.get("project.name")
        yield Problem(file, line, message, "project.name", package.name, fix="give one of them another name")


def _mismatches(
    registry: Registry, root: Path, folders: Mapping[str, Path], chosen: set[str] | None
) -> Iterator[Problem]:
    declared = {entry.folder_name: entry for entry in registry.environments.values()}
    external = {name.replace("-", "_"): entry for name, entry in registry.external.items()}
    for name, entry in declared.items():
        if name in folders or (chosen is not None and name not in chosen):
            continue
        path = f"environments.{entry.name}"
        folder = root / ENVIRONMENTS_FOLDER / name
        if folder.is_symlink():
            continue
        what = "is a file" if folder.is_file() else "does not exist"
        near = nearest(name, folders.keys() - declared.keys())
        fix = f"nox -s new -- {entry.name}, or remove the entry"
        message = f"its folder {ENVIRONMENTS_FOLDER}/{name} {what}"
        yield Problem(REGISTRY_FILE, entry.line, message, path, entry.name, nearest=near, fix="" if near else fix)
    for name in folders if chosen is None else ():
        file = f"{ENVIRONMENTS_FOLDER}/{name}"
        if name in external:
            message = "exists here, but registry.yaml declares it as on the Hub only"
            hub = external[name]
            yield Problem(
                REGISTRY_FILE, hub.line, message, f"environments.{hub.name}", file, fix="remove one of the two"
            )
        elif name not in declared:
            missing = [entry.name for known, entry in declared.items() if known not in folders]
            fix = f"add {name.replace('_', '-')}: under environments in {REGISTRY_FILE}"
            message = f"is not in {REGISTRY_FILE}"
            near = nearest(name.replace("_", "-"), missing)
            yield Problem(file, None, message, nearest=near, fix=fix)
