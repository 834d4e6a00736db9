"""`envwright store status`: the declared store, and what it has of this commit."""

from __future__ import annotations

import argparse
import sys

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import chosen_environments
from envwright.cli.sharing import declared_store
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.store.settings import ADDRESS, SettingsRefused
from envwright.observing.store.sharing import Exchange, refused_text, stored
from envwright.observing.verdicts import BRIEF_FROM, ValidationRequest
from envwright.rules.engine import GATES
from envwright.system.workspace import Workspace

EXAMPLES = """examples:
  envwright store status             the trusted keys, and the environments of this commit that are proven there
  envwright store status gsm8k       of one environment

it changes neither the store nor the cache
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command)


def run(options: argparse.Namespace) -> int:
    """Print the state of the store and return the exit code: 0 if it could be read."""
    try:
        store = declared_store(options)
    except SettingsRefused as error:
        print(error, file=sys.stderr)
        return exit_codes.USAGE
    if store is None:
        print(f"{ADDRESS} is not set: no store is used")
        return exit_codes.PASS
    root = options.root.absolute()
    choice = chosen_environments(root, options, set_apart=True)
    names = [name for name in choice.names if name in choice.repository.packages]
    brief = len(names) >= BRIEF_FROM
    request = ValidationRequest(choice.repository, Workspace(root), brief, GATES, ObservationRequest())
    found: Exchange = stored(request, names, store)
    print(f"store:   {store.address}")
    print(f"trusted: {', '.join(sorted(store.trusted)) or 'no key, so nothing in it counts'}")
    print(f"writes:  {f'as {store.key.name}' if store.key else 'no'}")
    print(f"proven:  {len(found.names)} of {len(names)} environments of this commit")
    if found.refused:
        print(f"refused: {refused_text(found)}")
    if found.trouble:
        print(f"store {store.address}: {found.trouble}", file=sys.stderr)
        return exit_codes.ERROR
    return exit_codes.PASS
