"""`envwright together`: install all environments into one virtual environment."""

from __future__ import annotations

import argparse
import sys
import threading

from envwright import exit_codes
from envwright.builds.co_install import import_together
from envwright.cli import arguments
from envwright.packages.repository import Repository
from envwright.system.subprocesses import ProgramFailed
from envwright.system.workspace import Workspace

EXAMPLES = """examples:
  envwright together                  all, the environments of each generation of verifiers by themselves
  envwright together gsm8k wordle     these
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command, changed=False)


def run(options: argparse.Namespace) -> int:
    """Try each generation of verifiers separately, since only one can be installed, and return the exit code."""
    root = options.root.absolute()
    repository = Repository.load(root, options.names or None)
    packages = [repository.packages[name] for name in repository.select(options.names)]
    code = exit_codes.PASS
    for generation in sorted({package.generation or "" for package in packages}):
        group = [package for package in packages if (package.generation or "") == generation]
        try:
            lines = import_together(group, Workspace(root), threading.Event())
        except ProgramFailed as error:
            print(f"{generation}: {len(group)} environments cannot be installed together", file=sys.stderr)
            print(error.failure.message, file=sys.stderr)
            code = max(code, exit_codes.FAIL if error.failure.kind == "raised" else exit_codes.ERROR)
            continue
        print(f"{generation}: {len(lines)} environments were installed and imported together")
    return code
