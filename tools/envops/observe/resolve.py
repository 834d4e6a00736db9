"""Resolving locks: from what a package requires to exact versions with hashes, by uv."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from envops.declare.lock import LOCK_FILE, inputs_digest, render
from envops.declare.package import Package
from envops.observe.subprocesses import run_program
from envops.observe.venv import uv_environment, uv_program

RESOLVE_SECONDS = 600.0
OLDEST_PYTHON = "3.11"


def resolve_locks(packages: Sequence[Package], stop: threading.Event) -> Iterator[tuple[Package, bool]]:
    """Write every package's requirements.lock anew; yields each package and whether its lock changed.

    Packages that require the same get the same lock, resolved once. Raises `ProgramFailed`
    when uv finds no solution or reaches no index; the lock on disk is then left as it was.
    """
    solved: dict[str, str] = {}
    for package in packages:
        inputs = inputs_digest(package.requires, package.requires_python)
        if inputs not in solved:
            solved[inputs] = render(_solve(package, stop), inputs)
        path = package.folder / LOCK_FILE
        before = path.read_text() if path.is_file() else ""
        if before != solved[inputs]:
            aside = path.with_name(f".{LOCK_FILE}.new")
            aside.write_text(solved[inputs])
            aside.replace(path)
        yield package, before != solved[inputs]


def _solve(package: Package, stop: threading.Event) -> str:
    with tempfile.TemporaryDirectory(prefix="envops-lock-") as folder:
        wanted = Path(folder) / f"{package.name}.in"
        wanted.write_text("\n".join(package.requires) + "\n")
        command: list[str | Path] = [
            uv_program(),
            "pip",
            "compile",
            wanted,
            "--universal",
            "--generate-hashes",
            "--upgrade",
            "--quiet",
        ]
        command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--python-version", oldest_python(package)]
        environment = uv_environment()
        return run_program(command, environment=environment, folder=Path(folder), seconds=RESOLVE_SECONDS, stop=stop)


def oldest_python(package: Package) -> str:
    """The lowest Python that a package says it runs on, at least the tool's own lowest."""
    floors = re.findall(r">=\s*(\d+)\.(\d+)", package.requires_python)
    highest = max(((int(major), int(minor)) for major, minor in floors), default=(0, 0))
    own = tuple(map(int, OLDEST_PYTHON.split(".")))
    major, minor = max(highest, own)
    return f"{major}.{minor}"
