"""`envwright test NAME`: run an environment's own tests and cases with pytest, in its virtual environment."""

from __future__ import annotations

import argparse
import threading

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import named_environment
from envwright.observing.authors_pytest import run_pytest
from envwright.observing.job import failing_as
from envwright.system.workspace import Workspace

EXAMPLES = """examples:
  envwright test reverse-text                      tests/test_*.py and tests/cases.yaml
  envwright test reverse-text -k empty -x          pytest's own flags
  envwright test reverse-text tests/cases.yaml -v
"""

MEANING = {0: exit_codes.PASS, 1: exit_codes.FAIL, 2: exit_codes.FAIL, 4: exit_codes.USAGE, 5: exit_codes.USAGE}
"""pytest's exit codes; 2 means that tests cannot be collected, unless it was interrupted, 5 that none was selected."""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.environment(command)
    command.add_argument(
        "pytest",
        nargs=argparse.REMAINDER,
        metavar="PYTEST ARGUMENTS",
        help="passed to pytest; paths may begin at the environment",
    )


def run(options: argparse.Namespace) -> int:
    entry, package = named_environment(options)
    arguments = [argument for number, argument in enumerate(options.pytest) if number or argument != "--"]
    workspace = Workspace(options.root)
    with failing_as(f"{entry.name} could not be tested"):
        code = run_pytest(entry, package, workspace, arguments, threading.Event())
    return MEANING.get(code, exit_codes.ERROR)
