"""The files that a wheel will install after modules have changed, made of the last wheel without a build.

While somebody waits for the verdict of a save, a build takes 0.7 s of two (docs/decisions.md, 69). Nothing is decided
by these files alone: an observation that begins with them builds the wheel before it ends, and starts again if the two
differ.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from envwright.builds.interpreter import interpreter_for
from envwright.builds.wheel import (
    SOURCES,
    BuiltWheel,
    describe_wheel,
    digests,
    has_its_files,
    installed_digest,
    made_by,
    sha256_of,
)
from envwright.declarations.package import Package
from envwright.system.scratch_folder import scratch_folder
from envwright.system.workspace import Workspace
from envwright.text.plain_data import foreign_json

EXPECTED = "expected-"
_METADATA = re.compile(r"[^/]+\.dist-info/(?!RECORD$).+")
"""Files of a wheel about itself, but for the one that repeats the digests of the others."""


@contextmanager
def expected_wheel(package: Package, workspace: Workspace) -> Iterator[BuiltWheel | None]:
    """The wheel that a build of the package is expected to make, while the block runs; its description is that of the
    last one.

    `None` unless only modules have changed since the last build, and each is in that wheel as it was then, once.
    """
    earlier = _last_built(package, workspace)
    changed = _changed_modules(package, *earlier) if earlier else {}
    if earlier is None or not changed:
        yield None
        return
    built, _ = earlier
    with scratch_folder(EXPECTED, workspace.wheels / package.name) as folder:
        overlay = folder / "site"
        shutil.copytree(built.overlay, overlay, symlinks=True)
        for place, source in changed.items():
            module = overlay / place
            for bytecode in (module.parent / "__pycache__").glob(f"{module.stem}.*.pyc"):
                bytecode.unlink()
            module.unlink()  # it may be read-only
            shutil.copy(source, module)
        yield BuiltWheel(built.wheel, overlay)


def is_as_expected(expected: BuiltWheel, built: BuiltWheel) -> bool:
    """Whether a build made the expected wheel: the same files, installed with the same content. What only the installer
    writes, and the record of digests, do not count."""

    def metadata(overlay: Path) -> dict[str, str | None]:
        found = digests(overlay)
        return {name: found.get(name) for name in built.wheel.files if _METADATA.fullmatch(name)}

    return (
        expected.wheel.files == built.wheel.files
        and installed_digest(expected.overlay) == installed_digest(built.overlay)
        and metadata(expected.overlay) == metadata(built.overlay)
    )


def _last_built(package: Package, workspace: Workspace) -> tuple[BuiltWheel, dict[str, str]] | None:
    """The wheel that was last built of this package by the same tools for the same Python, and the digests of the
    files that it was built of."""
    builder = made_by(interpreter_for(package.requires_python))
    folders = [path.parent for path in (workspace.wheels / package.name).glob(f"[!.]*/{SOURCES}")]
    for folder in sorted(folders, key=lambda each: each.stat().st_mtime, reverse=True):
        with suppress(OSError, ValueError, KeyError):
            if has_its_files(folder):
                kept = foreign_json((folder / SOURCES).read_bytes())
                built = BuiltWheel(describe_wheel(next(folder.glob("*.whl"))), folder / "site")
                return (built, kept["files"]) if kept["made_by"] == builder else None
    return None


def _changed_modules(package: Package, built: BuiltWheel, known: Mapping[str, str]) -> dict[str, Path]:
    """The changed modules, by their places in the unpacked wheel; empty if more than modules may have changed."""
    installed = digests(built.overlay)
    if known.keys() != set(package.files):
        return {}
    found = {}
    for name in package.files:
        source = package.folder / name
        if source.is_dir():  # a link, whose target's files may be other ones
            return {}
        if sha256_of(source) == known[name]:
            continue
        places = [place for place, digest in installed.items() if digest == known[name]]
        if not name.endswith(".py") or len(places) != 1 or list(known.values()).count(known[name]) != 1:
            return {}
        found[places[0]] = source
    return found
