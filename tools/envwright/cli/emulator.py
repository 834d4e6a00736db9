"""`envwright emulator`: a Hub on loopback, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from envwright_emulator.assumptions import assumptions
from envwright_emulator.behaviour import UnknownAssumption, behaviour
from envwright_emulator.faults import FaultSyntaxError
from envwright_emulator.hub import READ_ONLY_KEY
from envwright_emulator.server import EmulatedHub, emulator

from envwright import exit_codes
from envwright.cli import arguments
from envwright.declarations.problem import DeclarationError
from envwright.declarations.registry import load_registry
from envwright.exit_codes import CommandError
from envwright.system.loopback import PortTaken

EXAMPLES = """examples:
  envwright emulator --port 8100        then, with the variables that it prints: prime env list --mine
  envwright emulator --fault 'POST /environmentshub/*/versions/*/finalize status code=503 effect=done'
  envwright emulator --assume halves=wedged --assume same-content=400
  envwright emulator --assumptions      facts and assumptions about the real Hub
"""

FOLDER = Path(".envwright/emulator")


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.root(command)
    command.add_argument("--port", type=int, default=0, metavar="P", help="port on loopback (default: a free one)")
    command.add_argument(
        "--state", type=Path, metavar="FOLDER", help="the folder of its state (default: .envwright/emulator)"
    )
    command.add_argument("--user", default="rehearsal", metavar="NAME", help="the key's user (default: rehearsal)")
    command.add_argument(
        "--team", action="append", metavar="NAME", help="a team of that user (default: the owner in registry.yaml)"
    )
    command.add_argument("--key", default="emulated-key", metavar="KEY", help="the key with all permissions")
    add_behaviour(command)
    command.add_argument("--assumptions", action="store_true", help="print facts and assumptions about the real Hub")


def add_behaviour(command: argparse.ArgumentParser) -> None:
    """Arguments for the behaviour of the emulated Hub."""
    command.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="FAULT",
        help="a fault: METHOD PATH status|reset|cut-upload|delay|later|garbage KEY=VALUE…",
    )
    command.add_argument(
        "--assume", action="append", default=[], metavar="QUESTION=ANSWER", help="another answer to an open question"
    )


def run(options: argparse.Namespace) -> int:
    """Serve, and return the exit code once that ends."""
    if options.assumptions:
        print(assumptions(), end="")
        return exit_codes.PASS
    root = options.root
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        with emulator(
            options.state or root / FOLDER,
            user=options.user,
            teams=options.team or registered_owners(root),
            key=options.key,
            behaviour=behaviour(options.assume),
            faults=options.fault,
            port=options.port,
        ) as running:
            _print_variables(running, options.key)
            while not stop.wait(1.0):
                pass
    except (FaultSyntaxError, UnknownAssumption) as error:
        raise CommandError(f"envwright emulator: {error}") from None
    except PortTaken as error:
        message = f"envwright emulator: port {options.port}: {error.strerror}; --port 0 picks a free one"
        raise CommandError(message) from None
    except OSError as error:
        raise CommandError(f"envwright emulator: {error.filename or 'a file'}: {error.strerror}") from None
    print("stopped", file=sys.stderr)
    return exit_codes.PASS


def registered_owners(root: Path) -> list[str]:
    """The owners that registry.yaml publishes for: teams of the emulator's user. None if there is no registry."""
    try:
        registry = load_registry(root)
    except DeclarationError:
        return []
    return sorted({registry.owner, *(entry.owner for entry in registry.environments.values() if entry.owner)})


def _print_variables(running: EmulatedHub, key: str) -> None:
    print(
        f"export PRIME_API_BASE_URL={running.url} PRIME_API_KEY={key} PRIME_DISABLE_VERSION_CHECK=1 NO_PROXY=127.0.0.1"
    )
    print(f"a Hub on loopback; {READ_ONLY_KEY} is a key that may only read. Ctrl-C ends it.", file=sys.stderr)
    sys.stdout.flush()
