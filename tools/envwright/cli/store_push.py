"""`envwright store push`: sign proven results and write them into the shared store."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import chosen_environments
from envwright.cli.sharing import count_of, declared_store, send
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.store.settings import ADDRESS, KEY, SettingsRefused
from envwright.observing.store.sharing import adopted
from envwright.observing.verdicts import ValidationRequest, remembered_result
from envwright.rules.engine import GATES
from envwright.system.workspace import Workspace

EXAMPLES = """examples:
  envwright store push                        what the cache has of this commit
  envwright store push reverse-text gsm8k     of these two
  envwright store push --facts proof/facts    what another job of this commit left in its .envwright/facts

the job that proves needs no key: it keeps .envwright/facts, and this job has the key and runs no environment
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command)
    command.add_argument(
        "--facts", type=Path, metavar="FOLDER", help="first take over facts of another job, for this commit's digests"
    )
    command.add_argument("-q", "--quiet", action="store_true", help="only print what went wrong")


def run(options: argparse.Namespace) -> int:
    """Write what the store lacks and return the exit code."""
    try:
        store = declared_store(options)
    except SettingsRefused as error:
        print(error, file=sys.stderr)
        return exit_codes.USAGE
    if store is None or store.key is None:
        print(f"{ADDRESS} and {KEY} must be set; `envwright store key NAME` makes a key", file=sys.stderr)
        return exit_codes.USAGE
    root = options.root.absolute()
    choice = chosen_environments(root, options, set_apart=True)
    names = [name for name in choice.names if name in choice.repository.packages]
    request = ValidationRequest(choice.repository, Workspace(root), False, GATES, ObservationRequest())
    if options.facts is not None:
        if not options.facts.is_dir():
            print(f"{options.facts} is not a folder: name the .envwright/facts of the other job", file=sys.stderr)
            return exit_codes.USAGE
        taken = adopted(request, names, options.facts)
        print(f"took over facts of {len(taken)} of {len(names)} environments", file=sys.stderr)
    report = count_of(len(names), "judged", quiet=options.quiet)
    for done, name in enumerate(names):
        remembered_result(replace(request, brief=True), name)  # for runs of very many environments
        report(done)
    return exit_codes.PASS if send(request, names, store, quiet=options.quiet) else exit_codes.ERROR
