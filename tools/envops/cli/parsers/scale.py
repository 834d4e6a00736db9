"""What large repositories need: dividing work among machines."""

from __future__ import annotations

import argparse

from envops.cli.arguments import Commands, amount, command, positive, root, selection

SHARDS_EXAMPLES = """examples:
  envops shards                                        how the environments would be divided
  envops shards --changed --max 20 --format json       a matrix for GitHub Actions
  envops shards --changed origin/main --format json

each entry of the matrix has index, total, names (for envops validate NAMES), seconds (expected);
an empty one means that nothing is to be proved
"""
CACHE_EXAMPLES = """examples:
  envops cache                                what .envops/ holds, and virtual environments
  envops cache --older-than 14                remove what was not used for 14 days
  envops cache --max-size 2 --older-than 30   and the least recently used beyond 2 GB

all of it can be made again; files that uv's cache holds too (hard links) do not count for --max-size;
virtual environments are shared by all checkouts; they lie in ENVOPS_CACHE_DIR, by default ~/.cache/envops
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
    _cache(commands)


def _cache(commands: Commands[argparse.ArgumentParser]) -> None:
    cache = command(commands, "cache", "what the cache takes up, and what of it goes", "cache", CACHE_EXAMPLES)
    root(cache)
    cache.add_argument("--older-than", type=amount, metavar="DAYS", help="remove what was not used for so long")
    cache.add_argument("--max-size", type=amount, metavar="GB", help="keep no more than this, the most recently used")
    cache.add_argument("--format", choices=("text", "json"), default="text", help="what goes to stdout")
