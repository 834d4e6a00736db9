"""`envwright store key`: a new key that signs entries of a shared store."""

from __future__ import annotations

import argparse
import sys

from envwright import exit_codes
from envwright.observing.store.settings import KEY, TRUSTS, named
from envwright.system.installation import install_command

EXAMPLES = """examples:
  envwright store key main-2026    print a new private key, for jobs that write, and its public key, for all readers
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="the name that reports show: lower-case letters, digits, . and -")


def run(options: argparse.Namespace) -> int:
    """Print the two variables and return the exit code."""
    try:
        from envwright.observing.store.entries import new_keys

        if not named(options.name):
            print(f"{options.name!r} is not a name: use lower-case letters, digits, . and -", file=sys.stderr)
            return exit_codes.USAGE
        private, public = new_keys(options.name)
    except ImportError:
        print(f"cryptography is not installed: {install_command('store')}", file=sys.stderr)
        return exit_codes.ERROR
    print(f"{KEY}={private.text()}\n{TRUSTS}={public.text()}")
    print(f"keep {KEY} where only trusted jobs can read it; {TRUSTS} is public", file=sys.stderr)
    return exit_codes.PASS
