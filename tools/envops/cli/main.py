"""The command line. Commands are imported when they are called: `--help` waits for nothing."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Sequence
from importlib import import_module

from envops import __version__, exit_codes

# Modules of envops.cli.parsers, in the order of --help.
GROUPS = ("gates", "recording", "release", "rehearsal", "authoring", "reports", "scale", "training", "project")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = parser().parse_args(arguments)
    if "command" not in options:
        parser().print_help()
        return exit_codes.USAGE
    command = import_module(f"envops.cli.{options.module}")
    gc.enable()
    code: int = command.run(options)
    return code


def run() -> None:
    """The entry point of the `envops` script."""
    gc.disable()  # until the command is imported: what imports make stays
    from envops.repository.problem import DeclarationError

    try:
        code = main()
        gc.freeze()  # or the interpreter would look through all that is left once more, only to end
        sys.exit(code)
    except DeclarationError as error:
        print(f"{error}\n\n{len(error.problems)} problem(s); nothing was run.", file=sys.stderr)
        sys.exit(exit_codes.USAGE)
    except KeyboardInterrupt:
        sys.exit(exit_codes.INTERRUPTED)
    except BrokenPipeError:
        sys.exit(exit_codes.ERROR)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(prog="envops", description="Prove, publish and train a monorepo of RL environments.")
    top.add_argument("--version", action="version", version=f"envops {__version__}")
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    for group in GROUPS:
        import_module(f"envops.cli.parsers.{group}").add(commands)
    return top
