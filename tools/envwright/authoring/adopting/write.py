"""Moves the environments from the staging folder into the repository: all of them, or none."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

from envwright.authoring.adopting.staging import Adoption, Staging
from envwright.declarations import codeowners
from envwright.declarations.registry import load_registry
from envwright.declarations.tool_source import REGISTRY_FILE
from envwright.files.undoable_write import write_undoable
from envwright.packages.repository import ENVIRONMENTS_FOLDER


def write_adoptions(staging: Staging) -> None:
    """Move the folders, then write the registry and CODEOWNERS; if a step fails, the repository is unchanged.

    A CODEOWNERS that the team wrote stays as it is.
    Raises `RepositoryChanged` if a file that would be written has changed since the staging folder was made.
    """
    root = staging.root
    registry_file, owners_file = root / REGISTRY_FILE, root / codeowners.CODEOWNERS_FILE
    if registry_file.read_bytes() != staging.before:
        raise RepositoryChanged(REGISTRY_FILE)
    owners_text = codeowners.render(load_registry(staging.folder))
    (root / ENVIRONMENTS_FOLDER).mkdir(exist_ok=True)
    with ExitStack() as undo:
        for adoption in staging.ready:
            if adoption.replaces is None:
                _move(staging.folder / adoption.folder, root / adoption.folder, undo)
            else:
                _complete(adoption, staging.folder / adoption.folder, root / adoption.folder, undo)
        write_undoable(registry_file, staging.text.encode(), undo)
        if codeowners.handwritten(root) is None:
            write_undoable(owners_file, owners_text.encode(), undo)
        undo.pop_all()


class RepositoryChanged(Exception):
    """The repository changed while environments were being adopted."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} changed in the meantime, and nothing was written. Run the command again.")


def _move(ready: Path, target: Path, undo: ExitStack) -> None:
    if target.exists():
        raise RepositoryChanged(f"{ENVIRONMENTS_FOLDER}/{target.name}")
    undo.callback(shutil.rmtree, target, ignore_errors=True)
    shutil.move(ready, target)  # .envwright may be on another disk


def _complete(adoption: Adoption, ready: Path, target: Path, undo: ExitStack) -> None:
    """Write new and changed files into an existing folder; others stay."""
    if adoption.replaces is not None and adoption.replaces != target.resolve():
        adoption.replaces.rename(target)
        undo.callback(target.rename, adoption.replaces)
    for file in sorted(path for path in ready.rglob("*") if path.is_file() and not path.is_symlink()):
        write_undoable(target / file.relative_to(ready), file.read_bytes(), undo)
