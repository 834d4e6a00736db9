"""Moving what is ready in the staging folder into the repository: all of it, or nothing."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from envops.authoring.adopting.staging import Adoption, Staging
from envops.files.atomic_write import write_whole
from envops.repository import codeowners
from envops.repository.registry import REGISTRY_FILE, load_registry
from envops.repository.repository import ENVIRONMENTS_FOLDER


def write_adoptions(staging: Staging) -> None:
    """Move the folders, then write the registry and CODEOWNERS; whatever fails, everything is as it was before.

    Raises `RegistryChanged` where somebody edited registry.yaml since the staging folder was made.
    """
    root = staging.root
    registry_file, owners_file = root / REGISTRY_FILE, root / codeowners.CODEOWNERS_FILE
    before = registry_file.read_bytes()
    if before != staging.before:
        raise RegistryChanged
    owners_before = owners_file.read_bytes() if owners_file.is_file() else None
    owners_text = codeowners.render(load_registry(staging.folder))
    (root / ENVIRONMENTS_FOLDER).mkdir(exist_ok=True)
    with ExitStack() as undo, tempfile.TemporaryDirectory(dir=staging.folder) as kept:
        undo.callback(_restore, owners_file, owners_before)
        undo.callback(_restore, registry_file, before)
        for number, adoption in enumerate(staging.ready):
            _move(adoption, staging, Path(kept) / str(number), undo)
        write_whole(registry_file, staging.text)
        write_whole(owners_file, owners_text)
        undo.pop_all()


class RegistryChanged(Exception):
    """registry.yaml was edited while environments were being adopted."""

    def __init__(self) -> None:
        super().__init__(f"{REGISTRY_FILE} was changed meanwhile, and nothing was written. Run the command again.")


def _move(adoption: Adoption, staging: Staging, kept: Path, undo: ExitStack) -> None:
    """Move one folder into place; one that lay there unregistered is kept aside until all is written."""
    target = staging.root / adoption.folder
    if adoption.replaces is not None:
        undo.callback(_move_back, kept, adoption.replaces)
        adoption.replaces.rename(kept)
    undo.callback(shutil.rmtree, target, ignore_errors=True)
    (staging.folder / adoption.folder).rename(target)


def _move_back(kept: Path, place: Path) -> None:
    if kept.exists():
        kept.rename(place)


def _restore(file: Path, content: bytes | None) -> None:
    if content is None:
        file.unlink(missing_ok=True)
    elif not file.is_file() or file.read_bytes() != content:
        write_whole(file, content)
