"""`envwright upgrade`: renew the files that `envwright init` wrote, without touching what the team edited."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from envwright import exit_codes
from envwright.authoring.setup.answers import ANSWERS_FILE, Record, at_installed_commit, read_record
from envwright.authoring.setup.files import FILES
from envwright.authoring.setup.screen import render_upgrade
from envwright.authoring.setup.upgrading import as_data, plan_upgrade, write_upgrade
from envwright.cli import arguments
from envwright.declarations.problem import DeclarationError, Problem, nearest
from envwright.reports.printing import for_terminal, print_text
from envwright.system.subprocesses import terminated_like_interrupted
from envwright.text.visible_text import visible

EXAMPLES = """examples:
  envwright upgrade --check                 show what this version of envwright would change; exit code 1 if anything
  envwright upgrade                         change it, by three-way merges
  envwright upgrade --keep README.md        settle a conflict: the file stays as it is
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--check", action="store_true", help="write nothing, and exit with 1 if a file would change or is in conflict"
    )
    command.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="FILE",
        help="keep this file as it is where it is in conflict, and do not show the change again",
    )
    arguments.printed(command)
    arguments.root(command)


def run(options: argparse.Namespace) -> int:
    """Merge every file; the differences go to standard output. The exit code is 1 where conflicts are left."""
    root: Path = options.root
    record = read_record(root)
    if record is None:
        fix = "envwright init, which keeps the files that are there"
        raise DeclarationError(
            [Problem(ANSWERS_FILE, None, "does not exist, so the files that init wrote are not known", fix=fix)]
        )
    _refuse_unknown(options.keep, record)
    try:
        with terminated_like_interrupted():
            upgrade = plan_upgrade(root, at_installed_commit(record), options.keep)
            if not options.check and (upgrade.changes or upgrade.record.files != record.files):
                write_upgrade(root, upgrade)
    except KeyboardInterrupt:
        print("\ninterrupted, and nothing was written", file=sys.stderr)
        return exit_codes.INTERRUPTED
    except OSError as error:
        print(f"{visible(str(error.filename or root))} cannot be written: {error.strerror or error}", file=sys.stderr)
        print("\nNothing was written.", file=sys.stderr)
        return exit_codes.ERROR
    if options.format == "json":
        text = json.dumps(as_data(upgrade, record.envwright), indent=2) + "\n"
    else:
        text = for_terminal(
            lambda width, colour: render_upgrade(upgrade, width=width, colour=colour, check=options.check)
        )
    print_text(text)
    return exit_codes.FAIL if (upgrade.changes if options.check else upgrade.conflicts) else exit_codes.PASS


def _refuse_unknown(names: Sequence[str], record: Record) -> None:
    """Raise `DeclarationError` for a name that is not one of the tool's files."""
    known = sorted({*FILES, *record.files})
    for name in names:
        if name not in known:
            message, near = "is not a file that init writes", nearest(name, known)
            raise DeclarationError([Problem(name, None, message, allowed=", ".join(known), nearest=near)])
