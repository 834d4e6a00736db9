"""Bytecode, made by the interpreter of a virtual environment."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path

from envops.observe.starting import BOOTSTRAP_OF_COMPILERS, WORKER_FOLDER
from envops.observe.subprocesses import run_program
from envops.observe.venv import VirtualEnvironment, uv_environment

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
        sends=json.dumps({"folder": str(folder), "modules": [], "beside": 0, "all": False, "idle": False, **asked}),
    )
