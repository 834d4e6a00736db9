"""What large repositories need: dividing work among machines."""

from __future__ import annotations

import argparse

from envops.command_line.arguments import Commands, command, positive, selection

SHARDS_EXAMPLES = """examples:
  envops shards                                        how the environments would be divided
  envops shards --changed --max 20 --format json       a matrix for GitHub Actions
  envops shards --changed origin/main --format json

each entry of the matrix has index, total, names (for envops validate NAMES), seconds (expected);
an empty one means that nothing is to be proved
"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them."""
    shards = command(
        commands, "shards", "divide environments among machines, by past timings", "shards", SHARDS_EXAMPLES
    )
    selection(shards)
    shards.add_argument(
        "--max", type=positive, default=256, metavar="N", help="machines at most (default and limit: 256)"
    )
    shards.add_argument("--format", choices=("text", "json"), default="text", help="what goes to stdout")
