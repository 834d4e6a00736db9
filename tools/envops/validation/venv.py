"""One virtual environment per distinct lock, made by uv and shared by all who have that lock."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from envops.facts.observed import Failure
from envops.repository.workspace import Workspace, made_once, mark_used
from envops.system.subprocesses import ProgramFailed, run_program
from envops.text.scrubbing import SECRET_NAME

BUILD_SECONDS = 1_800.0
COMPLETE = "envops-complete.json"
IMPORTED = "envops-imported"
IMPORT_SECONDS = 300.0
IMPORTS = """
import gc
from importlib.metadata import version

gc.disable()  # which takes as long as the import itself
if [*map(int, version("verifiers").split(".")[:2])] < [0, 4]:
    import verifiers

    verifiers.Environment  # which is imported when it is touched
else:
    import verifiers.v1
"""
TOOL_LOCKS = Path(__file__).parent / "locks"
"""What the tool itself brings along is small and compiled at once. Of what an environment's lock installs, importing
verifiers needs two fifths, and compiles that."""
_finding_uv = threading.Lock()
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True)
class VirtualEnvironment:
    """A complete virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return self.folder / "lib" / f"python{PYTHON}" / "site-packages"


def venv_for(lock: Path, workspace: Workspace, stop: threading.Event, *, imported: bool = True) -> VirtualEnvironment:
    """The virtual environment that holds exactly what a lock names.

    With `imported`, verifiers has been imported there once, so that it has its bytecode.

    Packages come from uv's cache where they are there, and over the network otherwise.
    Raises `ProgramFailed` when it cannot be made and `Interrupted` when `stop` is set.
    """

    def make(unfinished: Path) -> None:
        _install(lock, unfinished, stop)
        (unfinished / COMPLETE).write_text(json.dumps({"lock": lock.name, "python": sys.version}))

    folder = made_once(workspace.venvs / venv_key(lock), make, is_sound, stop)
    mark_used(folder)
    if imported and not _is_the_tools(lock) and not (folder / IMPORTED).exists():
        with suppress(ProgramFailed):  # a failed import is reported when an environment is loaded
            _import_verifiers(folder, stop)
        mark_imported(folder)
    return VirtualEnvironment(folder)


def mark_imported(folder: Path) -> None:
    """Remember that a process has imported verifiers there, or is about to, and wrote bytecode of what that needs."""
    with suppress(OSError):  # another user's, or read-only
        (folder / IMPORTED).touch()


def _import_verifiers(folder: Path, stop: threading.Event) -> None:
    with tempfile.TemporaryDirectory() as home:
        variables = {"PATH": os.defpath, "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "HF_HUB_OFFLINE": "1"}
        command: list[str | Path] = [folder / "bin" / "python", "-I", "-c", IMPORTS]
        run_program(command, environment=variables, folder=Path(home), seconds=IMPORT_SECONDS, stop=stop)


def _is_the_tools(lock: Path) -> bool:
    return lock.parent == TOOL_LOCKS


def venv_key(lock: Path) -> str:
    """The name of the virtual environment of a lock: equal pins and the same interpreter have one."""
    identity = json.dumps([_digest_of_pins(lock.read_bytes()), sys.version, sys.base_prefix])
    return hashlib.sha256(identity.encode()).hexdigest()[:20]


@lru_cache(maxsize=4)  # asked several times of every environment, and a lock has thousands of lines
def _digest_of_pins(lock: bytes) -> str:
    return hashlib.sha256(pins_of(lock)).hexdigest()


def pins_of(lock: bytes) -> bytes:
    """A lock without its comments: what is installed, for whichever package it was resolved."""
    return b"\n".join(line for line in lock.splitlines() if not line.lstrip().startswith(b"#"))


def is_sound(folder: Path) -> bool:
    """Whether it was made to the end and its interpreter is still there."""
    return (folder / COMPLETE).is_file() and (folder / "bin" / "python").exists()


def _install(lock: Path, folder: Path, stop: threading.Event) -> None:
    environment = uv_environment()
    run_program(
        [uv_program(), "venv", "--quiet", "--relocatable", "--python", base_python(), folder],
        environment=environment,
        folder=lock.parent,
        seconds=BUILD_SECONDS,
        stop=stop,
    )
    sync: list[str | Path] = [uv_program(), "pip", "sync", "--quiet", "--python", folder / "bin" / "python"]
    sync += ["--require-hashes", "--strict"]
    if _is_the_tools(lock):
        sync.append("--compile-bytecode")
    try:
        # From uv's cache alone first: no index is asked for what is already here.
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


def base_python() -> Path:
    """The interpreter behind whatever virtual environment the tool itself runs in."""
    return Path(getattr(sys, "_base_executable", sys.executable))


def uv_program() -> Path:
    """The uv that was installed with the tool."""
    with _finding_uv:  # it asks sysconfig, whose first answer is wrong when two threads ask at once
        return _found_uv()


@cache
def _found_uv() -> Path:
    from uv import find_uv_bin

    return Path(find_uv_bin())


def uv_environment() -> Mapping[str, str]:
    """The user's environment without what would point uv at another virtual environment, and without secrets.

    A lock may pin a package that has to be built, and its build gets uv's variables; uv's own settings stay.
    """
    unwanted = {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "UV_PROJECT_ENVIRONMENT"}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in unwanted and (name.startswith("UV_") or not SECRET_NAME.search(name))
    }
    return {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", **kept}
