"""Bytecode, made by the interpreter of a virtual environment."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from envops.observe.bytecode_store import bytecode_store
from envops.observe.starting import BOOTSTRAP_OF_COMPILERS, WORKER_FOLDER
from envops.observe.subprocesses import run_program
from envops.observe.venv import VirtualEnvironment, is_compiled, mark_compiled, uv_environment, venv_for
from envops.observe.workspace import Workspace

SECONDS = 1_800.0


def compile_some(venv: VirtualEnvironment, folder: Path, stop: threading.Event, asked: Mapping[str, object]) -> None:
    """Compile in a folder what is asked for, by the interpreter of a virtual environment: what modules import, or all.

    Raises `ProgramFailed` where that cannot be kept, and `Interrupted` when `stop` is set.
    """
    run_program(
        [venv.python, "-I", "-S", "-W", "ignore", "-c", BOOTSTRAP_OF_COMPILERS, WORKER_FOLDER],
        environment=uv_environment(),
        folder=folder,
        seconds=SECONDS,
        stop=stop,
        sends=json.dumps(
            {"folder": str(folder), "modules": [], "beside": 0, "all": False, "idle": False, "store": "", **asked}
        ),
    )


def toolbox_for(lock: Path, workspace: Workspace, stop: threading.Event) -> VirtualEnvironment:
    """A virtual environment of the tool's own, with the bytecode of all of it, which another checkout may have made.

    Raises what `venv_for` and `compile_some` raise.
    """
    venv = venv_for(lock, workspace, stop, compiled=False)
    if not is_compiled(venv.folder):
        compile_some(venv, venv.site_packages, stop, {"all": True, "store": bytecode_store(workspace).files})
        with suppress(OSError):
            mark_compiled(venv.folder)
    return venv
