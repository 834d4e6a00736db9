"""`envops shards`: environments divided among machines, for people or as a matrix of GitHub Actions."""

from __future__ import annotations

import argparse
import json
import sys

from envops import exit_codes
from envops.cli import arguments
from envops.cli.selection import chosen_environments, loads
from envops.repository.workspace import Workspace
from envops.validation.scheduling import divided, worthwhile_count

EXAMPLES = """examples:
  envops shards                                        how the environments would be divided
  envops shards --changed --max 20 --format json       a matrix for GitHub Actions
  envops shards --changed origin/main --format json

each entry of the matrix has index, total, names (for envops validate NAMES), seconds (expected);
an empty one means that nothing is to be proved
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command)
    command.add_argument(
        "--max",
        type=arguments.positive,
        default=256,
        metavar="N",
        help="maximum number of machines (default and limit: 256)",
    )
    arguments.printed(command)


def run(options: argparse.Namespace) -> int:
    """Print the division and return the exit code; nothing to divide is fine."""
    root = options.root.absolute()
    choice = chosen_environments(root, options, set_apart=True)
    if choice.note:
        print(choice.note, file=sys.stderr)
    work = loads(choice, Workspace(root))
    shards = divided(work, worthwhile_count(work, options.max))
    entries = [
        {"index": index, "total": len(shards), "names": " ".join(shard.names), "seconds": round(shard.seconds)}
        for index, shard in enumerate(shards, start=1)
    ]
    if options.format == "json":
        print(json.dumps({"include": entries}))
        return exit_codes.PASS
    print(f"{len(work)} environments on {len(shards)} machines")
    for entry in entries:
        print(f"{entry['index']}/{entry['total']}  about {entry['seconds']} s  {entry['names']}")
    return exit_codes.PASS
