"""`envops new`."""

from __future__ import annotations

import argparse
import sys

from envops import exit_codes


def run(options: argparse.Namespace) -> int:
    """Not there yet."""
    print(f"envops {options.command} is not built yet", file=sys.stderr)
    return exit_codes.USAGE
