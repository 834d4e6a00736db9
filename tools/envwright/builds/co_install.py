"""Environments installed together, as for training on several at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from envwright.builds.interpreter import interpreter_for
from envwright.builds.resolve import resolve_together
from envwright.builds.sandbox import sandbox_of, tool_folders
from envwright.builds.venv import venv_for
from envwright.builds.wheel import built_wheel
from envwright.declarations.package import Package
from envwright.system.subprocesses import run_program
from envwright.system.workspace import Workspace

IMPORT_SECONDS = 600.0
_IMPORTS = """
import importlib, sys
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    print(name, getattr(module, "__file__", None) or list(module.__path__)[0])
"""


def import_together(packages: Sequence[Package], workspace: Workspace, stop: threading.Event) -> tuple[str, ...]:
    """Resolve, install and import all packages at once; returns a line with each module and its origin.

    Raises `ProgramFailed` if they conflict, do not build, or cannot be imported.
    """
    with workspace.scratch() as scratch:
        lock = scratch / "together.lock"
        resolve_together(packages, lock, stop)
        every = ",".join(package.requires_python for package in packages if package.requires_python)
        venv = venv_for(lock, workspace, stop, interpreter=interpreter_for(every))
        overlays = [str(built_wheel(package, workspace, stop).overlay) for package in packages]
        variables = {"PATH": os.defpath, "HOME": str(scratch), "HF_HUB_OFFLINE": "1"}
        variables |= {"PYTHONPATH": os.pathsep.join(overlays), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [str(venv.python), "-c", _IMPORTS, *(package.module for package in packages)]
        reads = [*map(Path, overlays), *tool_folders(workspace)]
        sandbox = sandbox_of("preferred", venv.python, reads=reads, writes=[scratch], network="none")
        output = run_program(
            command, environment=variables, folder=scratch, seconds=IMPORT_SECONDS, stop=stop, sandbox=sandbox
        )
    return tuple(output.splitlines())
