"""Trying a release without a key: the Hub on loopback, the whole way, and what CI says about it."""

from __future__ import annotations

import argparse
from pathlib import Path

from envops.command_line.arguments import Commands, command, root

EMULATOR_EXAMPLES = """examples:
  envops emulator --port 8100        then, with the variables that it prints: prime env list --mine
  envops emulator --fault 'POST /environmentshub/*/versions/*/finalize status code=503 effect=done'
  envops emulator --assume halves=wedged --assume same-content=400
  envops emulator --assumptions      what is measured and what is assumed about the real Hub
"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them."""
    _emulator(commands)


def _emulator(commands: Commands[argparse.ArgumentParser]) -> None:
    emulator = command(
        commands, "emulator", "a Hub on loopback for rehearsals and tests, until Ctrl-C", "emulator", EMULATOR_EXAMPLES
    )
    root(emulator)
    emulator.add_argument("--port", type=int, default=0, metavar="P", help="port on loopback (default: a free one)")
    emulator.add_argument("--state", type=Path, metavar="FOLDER", help="its memory (default: .envops/emulator)")
    emulator.add_argument("--user", default="rehearsal", metavar="NAME", help="the key's user (default: rehearsal)")
    emulator.add_argument(
        "--team", action="append", metavar="NAME", help="a team of that user (default: the owner in registry.yaml)"
    )
    emulator.add_argument("--key", default="emulated-key", metavar="KEY", help="the key that may do everything")
    emulator.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="FAULT",
        help="what goes wrong: METHOD PATH status|reset|cut-upload|delay|later|garbage KEY=VALUE…",
    )
    emulator.add_argument(
        "--assume", action="append", default=[], metavar="QUESTION=ANSWER", help="another answer to an open question"
    )
    emulator.add_argument("--assumptions", action="store_true", help="print what is known and what is assumed")
