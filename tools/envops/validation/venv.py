"""One virtual environment per distinct lock, made by uv and shared by all who have that lock."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from envops.facts.observed import Failure
from envops.repository.lock import LOCK_FILE
from envops.repository.package import Package
from envops.repository.workspace import Workspace, made_once, mark_used
from envops.system.subprocesses import ProgramFailed, run_program
from envops.validation.interpreter import Interpreter, interpreter_for, own_interpreter
from envops.validation.uv import uv_environment, uv_program

BUILD_SECONDS = 1_800.0
COMPLETE = "envops-complete.json"
IMPORTED = "envops-imported"
IMPORT_SECONDS = 300.0
IMPORTS = """
import gc
from importlib.metadata import version

gc.disable()  # collection takes as long as the import itself
if [*map(int, version("verifiers").split(".")[:2])] < [0, 4]:
    import verifiers

    verifiers.Environment  # imported lazily, by this access
else:
    import verifiers.v1
"""
TOOL_LOCKS = Path(__file__).parent / "locks"
"""The tool's own packages are small and compiled at once. Of an environment's packages, an import of verifiers needs
two fifths, and compiles them."""
HELD_BY_COMMIT = re.compile(rb"^[A-Za-z0-9].* @ git\+", re.MULTILINE)


@dataclass(frozen=True)
class VirtualEnvironment:
    """A complete virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        found = next(self.folder.glob("lib/python3.*/site-packages"), None)
        return found or self.folder / "lib" / f"python{own_interpreter().minor}" / "site-packages"


def environment_venv(
    package: Package, workspace: Workspace, stop: threading.Event, *, imported: bool = True
) -> VirtualEnvironment:
    """The virtual environment of a package: its lock, on a Python that its `requires-python` allows.

    Raises the errors of `venv_for`.
    """
    interpreter = interpreter_for(package.requires_python)
    return venv_for(package.folder / LOCK_FILE, workspace, stop, imported=imported, interpreter=interpreter)


def venv_for(
    lock: Path,
    workspace: Workspace,
    stop: threading.Event,
    *,
    imported: bool = True,
    interpreter: Interpreter | None = None,
) -> VirtualEnvironment:
    """The virtual environment that holds exactly what a lock names, on the tool's own Python unless another is given.

    With `imported`, verifiers has been imported there once, so that it has its bytecode.

    Packages come from uv's cache if it has them, or else over the network.
    Raises `ProgramFailed` when it cannot be made and `Interrupted` when `stop` is set.
    """

    python = interpreter or own_interpreter()

    def make(unfinished: Path) -> None:
        _install(lock, unfinished, python, stop)
        (unfinished / COMPLETE).write_text(json.dumps({"lock": lock.name, "python": python.build}))

    folder = made_once(workspace.venvs / venv_key(lock, python), make, is_sound, stop)
    mark_used(folder)
    if imported and not _is_the_tools(lock) and not (folder / IMPORTED).exists():
        with suppress(ProgramFailed):  # a failed import is reported when an environment is loaded
            _import_verifiers(folder, stop)
        mark_imported(folder)
    return VirtualEnvironment(folder)


def mark_imported(folder: Path) -> None:
    """Remember that a process imports verifiers there and writes the bytecode."""
    with suppress(OSError):  # another user's, or read-only
        (folder / IMPORTED).touch()


def _import_verifiers(folder: Path, stop: threading.Event) -> None:
    with tempfile.TemporaryDirectory() as home:
        variables = {"PATH": os.defpath, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "HF_HUB_OFFLINE": "1"}
        command: list[str | Path] = [folder / "bin" / "python", "-I", "-c", IMPORTS]
        run_program(command, environment=variables, folder=Path(home), seconds=IMPORT_SECONDS, stop=stop)


def _is_the_tools(lock: Path) -> bool:
    return lock.parent == TOOL_LOCKS


def venv_key(lock: Path, interpreter: Interpreter | None = None) -> str:
    """The name of the virtual environment of a lock: equal pins and the same interpreter have one."""
    python = interpreter or own_interpreter()
    identity = json.dumps([_digest_of_pins(lock.read_bytes()), *python.identity])
    return hashlib.sha256(identity.encode()).hexdigest()[:20]


@lru_cache(maxsize=4)  # called several times for every environment, and a lock has thousands of lines
def _digest_of_pins(lock: bytes) -> str:
    return hashlib.sha256(pins_of(lock)).hexdigest()


def pins_of(lock: bytes) -> bytes:
    """A lock without its comments, which makes it independent of its package."""
    return b"\n".join(line for line in lock.splitlines() if not line.lstrip().startswith(b"#"))


def is_sound(folder: Path) -> bool:
    """Whether it is complete and its interpreter still exists."""
    return (folder / COMPLETE).is_file() and (folder / "bin" / "python").exists()


def _install(lock: Path, folder: Path, python: Interpreter, stop: threading.Event) -> None:
    environment = uv_environment()
    run_program(
        [uv_program(), "venv", "--quiet", "--relocatable", "--python", python.path, folder],
        environment=environment,
        folder=lock.parent,
        seconds=BUILD_SECONDS,
        stop=stop,
    )
    sync: list[str | Path] = [uv_program(), "pip", "sync", "--quiet", "--python", folder / "bin" / "python"]
    # uv has no hash of a commit; everything else has one, which the parser of the lock guarantees
    sync += ["--verify-hashes" if HELD_BY_COMMIT.search(lock.read_bytes()) else "--require-hashes", "--strict"]
    if _is_the_tools(lock):
        sync.append("--compile-bytecode")
    try:
        # First from uv's cache alone, so that no index is queried for packages that it has.
        run_program([*sync, "--offline", lock], environment=environment, folder=lock.parent, seconds=120, stop=stop)
    except ProgramFailed:
        try:
            run_program([*sync, lock], environment=environment, folder=lock.parent, seconds=BUILD_SECONDS, stop=stop)
        except ProgramFailed as error:
            raise ProgramFailed(_explained(error.failure, lock)) from None


def _explained(failure: Failure, lock: Path) -> Failure:
    message = (
        f"no virtual environment could be made from {lock.parent.name}/{lock.name}\n"
        f"The first installation needs the package index; later runs need no network.\n{failure.message}"
    )
    return Failure("infrastructure", "VirtualEnvironmentFailed", message)
