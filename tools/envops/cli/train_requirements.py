"""`envops train requirements`: the requirements of an `envops train` command; `nox -s train` installs it."""

from __future__ import annotations

import argparse

from envops import exit_codes
from envops.cli.main import parsed
from envops.cli.train import runs_of_this_machine

TRL, PRIME = "tools/requirements-trl.lock", "tools/requirements-prime.lock"
EXAMPLES = """examples:
  envops train requirements                         tools/requirements-prime.lock
  envops train requirements probe reverse-text      tools/requirements-trl.lock
  envops train requirements -- --dry-run            tools/requirements-prime.lock
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "call",
        nargs=argparse.REMAINDER,
        metavar="ARGUMENTS",
        help="arguments of `envops train`; after -- if the first is a flag",
    )


def run(options: argparse.Namespace) -> int:
    """Print the file of requirements."""
    behind = options.call[1:] if options.call[:1] == ["--"] else options.call
    call = parsed(["train", *behind])
    here = call.command in ("train probe", "train file")
    if call.command == "train":
        here = bool(runs_of_this_machine(call.root.absolute(), call.names))
    print(TRL if here else PRIME)
    return exit_codes.PASS
