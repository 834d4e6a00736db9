"""`envwright together`: install all environments into one virtual environment."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from envwright import exit_codes
from envwright.builds.interpreter import interpreter_for
from envwright.builds.resolve import resolve_together
from envwright.builds.sandbox import sandbox_of, tool_folders
from envwright.builds.venv import venv_for
from envwright.builds.wheel import built_wheel
from envwright.cli import arguments
from envwright.declarations.package import Package
from envwright.packages.repository import Repository
from envwright.system.subprocesses import ProgramFailed, run_program
from envwright.system.workspace import Workspace

EXAMPLES = """examples:
  envwright together                  all, the environments of each generation of verifiers by themselves
  envwright together gsm8k wordle     these
"""
IMPORT_SECONDS = 600.0
_IMPORTS = """
import importlib, sys
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    print(name, getattr(module, "__file__", None) or list(module.__path__)[0])
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command, changed=False)


def run(options: argparse.Namespace) -> int:
    """Try each generation of verifiers separately, since only one can be installed, and return the exit code."""
    root = options.root
    repository = Repository.load(root, options.names or None)
    packages = [repository.packages[name] for name in repository.select(options.names)]
    code = exit_codes.PASS
    for generation in sorted({package.generation or "" for package in packages}):
        group = [package for package in packages if (package.generation or "") == generation]
        try:
            lines = _import_together(group, Workspace(root), threading.Event())
        except ProgramFailed as error:
            print(f"{generation}: {len(group)} environments cannot be installed together", file=sys.stderr)
            print(error.failure.message, file=sys.stderr)
            code = max(code, exit_codes.FAIL if error.failure.kind == "raised" else exit_codes.ERROR)
            continue
        print(f"{generation}: {len(lines)} environments were installed and imported together")
    return code


def _import_together(packages: Sequence[Package], workspace: Workspace, stop: threading.Event) -> tuple[str, ...]:
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
