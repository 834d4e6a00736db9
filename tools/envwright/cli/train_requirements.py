"""`envwright ci requirements`: the extra of `envwright` that an `envwright train` command needs; nox installs it."""

from __future__ import annotations

import argparse
import shutil

from envwright import exit_codes
from envwright.cli.main import parsed
from envwright.cli.train import runs_of_this_machine
from envwright.declarations.registry import load_registry
from envwright.system.installation import Extra

EXAMPLES = """examples:
  envwright ci requirements                             prime
  envwright ci requirements probe reverse-text          train
  envwright ci requirements serve reverse-text-here     train
  envwright ci requirements -- --dry-run            prime
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "call",
        nargs=argparse.REMAINDER,
        metavar="ARGUMENTS",
        help="arguments of `envwright train`; after -- if the first is a flag",
    )


def run(options: argparse.Namespace) -> int:
    """Print the name of the extra."""
    behind = options.call[1:] if options.call[:1] == ["--"] else options.call
    call = parsed(["train", *behind])
    here = call.command in ("train probe", "train file")
    if call.command == "train serve" and not shutil.which("vllm"):
        here = bool(runs_of_this_machine(load_registry(call.root.absolute()), [call.name]))
    if call.command == "train" and call.names:
        here = bool(runs_of_this_machine(load_registry(call.root.absolute()), call.names))
    extra: Extra = "train" if here else "prime"
    print(extra)
    return exit_codes.PASS
