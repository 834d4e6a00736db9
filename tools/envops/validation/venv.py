"""One virtual environment per distinct lock, made by uv and shared by all who have that lock."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from envops.facts.observed import Failure
from envops.repository.environment_lock import installable
from envops.repository.lock import LOCK_FILE
from envops.repository.package import Package
from envops.repository.problem import DeclarationError
from envops.repository.shared_lock import lock_content
from envops.repository.workspace import Workspace, made_once, mark_used
from envops.system.scratch_folder import temporary_scratch
from envops.system.subprocesses import ProgramFailed, run_program
from envops.text.scrubbing import SECRET_NAME
from envops.validation.interpreter import Interpreter, interpreter_for, own_interpreter
from envops.validation.sandbox import CERTIFICATES, sandbox_of
from envops.validation.starting import IMPORT_WORKER
from envops.validation.uv import NO_SETTINGS, uv_environment, uv_program

BUILD_SECONDS = 1_800.0
COMPLETE = "envops-complete.json"
IMPORTED = "envops-imported"
IMPORT_SECONDS = 300.0
IMPORTS = f"""{IMPORT_WORKER}
import sys
from importlib.metadata import version

from envops_worker.imported import bytecode_below, collector_at_rest, import_verifiers

is_v0 = [*map(int, version("verifiers").split(".")[:2])] < [0, 4]
with collector_at_rest(), bytecode_below(sys.argv[1]):
    import_verifiers("v0" if is_v0 else "v1")
"""
TOOL_LOCKS = Path(__file__).parent / "locks"
"""The tool's own packages are small and compiled at once. Of an environment's packages, an import of verifiers needs
two fifths, and compiles them."""
_NEEDS_BUILD = re.compile(r"no usable wheels|uilding source distributions is disabled|o usable wheel|--no-build")
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

    kept = workspace.tools if _is_the_tools(lock) else workspace.venvs
    folder = made_once(kept / venv_key(lock, python), make, is_sound, stop)
    mark_used(folder)
    if imported and not _is_the_tools(lock) and not (folder / IMPORTED).exists():
        _import_verifiers(VirtualEnvironment(folder), stop)
    return VirtualEnvironment(folder)


@contextmanager
def bytecode_folder(venv: VirtualEnvironment) -> Iterator[Path | None]:
    """A folder for the bytecode of the first process that imports verifiers; `None` for later ones.

    That process runs what the lock names. It cannot write into the virtual environment, whose files are links to uv's
    cache: what it wrote there would be installed for others.
    """
    if (venv.folder / IMPORTED).exists():
        yield None
        return
    try:
        made = tempfile.TemporaryDirectory(prefix=f".{venv.folder.name}.", dir=venv.folder.parent)
    except OSError:  # another user's, or read-only
        yield None
        return
    with made as folder:
        yield Path(folder)


def keep_bytecode(venv: VirtualEnvironment, written: Path | None) -> None:
    """Move bytecode into the virtual environment, and remember that it is complete."""
    if written is None:
        return
    below = Path(f"{written}{venv.folder.resolve()}")
    with suppress(OSError):  # another process has moved the same, or removed the virtual environment
        for parent, _, names in os.walk(below):
            if os.path.basename(parent) == "__pycache__":  # noqa: PTH119 - for every file
                target = venv.folder / os.path.relpath(parent, below)
                target.mkdir(exist_ok=True)
                for name in names:
                    os.rename(f"{parent}/{name}", target / name)  # noqa: PTH104 - for every file
        (venv.folder / IMPORTED).touch()


def _import_verifiers(venv: VirtualEnvironment, stop: threading.Event) -> None:
    with temporary_scratch("import") as home, bytecode_folder(venv) as bytecode:
        if bytecode is None:
            return
        variables = {
            "PATH": os.defpath,
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            "HF_HUB_OFFLINE": "1",
        }
        sandbox = sandbox_of("preferred", venv.python, reads=(), writes=[home, bytecode], network="loopback")
        command: list[str | Path] = [venv.python, "-I", "-c", IMPORTS, bytecode]
        with suppress(ProgramFailed):  # a failed import is reported when an environment is loaded
            run_program(
                command,
                environment=variables,
                folder=home,
                seconds=IMPORT_SECONDS,
                stop=stop,
                sandbox=sandbox,
            )
        keep_bytecode(venv, bytecode)


def _is_the_tools(lock: Path) -> bool:
    return lock.parent == TOOL_LOCKS


def venv_key(lock: Path, interpreter: Interpreter | None = None) -> str:
    """The name of the virtual environment of a lock: equal pins and the same interpreter have one."""
    python = interpreter or own_interpreter()
    identity = json.dumps([_digest_of_pins(lock_content(lock, lock.parent)), *python.identity])
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
    try:
        text = installable(lock)
    except (DeclarationError, ValueError, OSError) as error:
        message = f"no virtual environment could be made from {lock.parent.name}/{lock.name}: {error}"
        raise ProgramFailed(Failure("infrastructure", "VirtualEnvironmentFailed", message)) from None
    with temporary_scratch("lock") as neutral:
        read = neutral / LOCK_FILE
        read.write_text(text)
        run_program(
            [uv_program(), "venv", "--quiet", "--relocatable", "--python", python.path, folder],
            environment=uv_environment(),
            folder=read.parent,
            seconds=BUILD_SECONDS,
            stop=stop,
        )
        _synchronize(lock, read, folder, stop)


def _synchronize(lock: Path, read: Path, folder: Path, stop: threading.Event) -> None:
    """Install what a lock names, from a copy of its entries: wheels from the cache or the index, and then builds."""
    sync: list[str | Path] = [uv_program(), "pip", "sync", "--quiet", "--python", folder / "bin" / "python"]
    # uv has no hash of a commit; everything else has one, which the parser of the lock guarantees
    sync += ["--verify-hashes" if HELD_BY_COMMIT.search(read.read_bytes()) else "--require-hashes", "--strict"]
    if _is_the_tools(lock):
        sync.append("--compile-bytecode")
    run = partial(run_program, folder=read.parent, stop=stop)
    try:
        # First from uv's cache alone, so that no index is queried for packages that it has.
        run([*sync, "--no-build", "--offline", read], environment=uv_environment(), seconds=120)
    except ProgramFailed:
        try:
            run([*sync, "--no-build", read], environment=uv_environment(), seconds=BUILD_SECONDS)
        except ProgramFailed as error:
            if not _NEEDS_BUILD.search(error.failure.message):
                raise ProgramFailed(_explained(error.failure, lock)) from None
            try:
                with _confined_uv(read, folder) as confined:
                    run([*sync, read], seconds=BUILD_SECONDS, **confined)
            except ProgramFailed as built:
                raise ProgramFailed(_explained(built.failure, lock)) from None


@contextmanager
def _confined_uv(read: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Arguments of `run_program` for a uv that may build what it downloads, which runs code of its authors.

    It reads a lock and writes a virtual environment. It has a cache and a home of its own, because what a build writes
    into uv's cache would be installed for others. It has the network, and no variable with a password.
    """
    with temporary_scratch("uv") as scratch:
        variables = {name: value for name, value in uv_environment().items() if _may_be_seen_by_builds(name, value)}
        variables |= {"HOME": str(scratch), "TMPDIR": str(scratch)}
        variables |= {"UV_CACHE_DIR": str(scratch / "cache"), "UV_LINK_MODE": "copy"}
        variables |= {NO_SETTINGS: "1", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
        variables.pop("UV_CONFIG_FILE", None)
        python = own_interpreter().path
        sandbox = sandbox_of("preferred", python, reads=[uv_program(), read], writes=[scratch, folder], network="open")
        yield {"environment": variables, "sandbox": sandbox}


def _may_be_seen_by_builds(name: str, value: str) -> bool:
    known = name in ("PATH", "LANG", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", *CERTIFICATES)
    return (known or name.startswith("UV_")) and not SECRET_NAME.search(name) and "@" not in value


def _explained(failure: Failure, lock: Path) -> Failure:
    message = (
        f"no virtual environment could be made from {lock.parent.name}/{lock.name}\n"
        f"The first installation needs the package index; later runs need no network.\n{failure.message}"
    )
    return Failure("infrastructure", "VirtualEnvironmentFailed", message)
