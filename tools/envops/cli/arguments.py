"""What several commands take."""

from __future__ import annotations

import argparse
from pathlib import Path

Commands = argparse._SubParsersAction  # the only name argparse has for it


def command(
    commands: Commands[argparse.ArgumentParser], name: str, summary: str, module: str, examples: str
) -> argparse.ArgumentParser:
    """A command with its help, its examples and the module of `envops.cli` that runs it."""
    added = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    added.set_defaults(command=name, module=module)
    return added


def root(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--root", type=Path, default=Path(), metavar="FOLDER", help="the repository (default: this folder)"
    )


def selection(command: argparse.ArgumentParser, *, changed: bool = True) -> None:
    command.add_argument("names", nargs="*", metavar="NAME", help="environments (default: all)")
    if changed:
        command.add_argument(
            "--changed",
            nargs="?",
            const="",
            metavar="BASE",
            help="only what differs from where this branch left BASE (default: the main branch)",
        )
    root(command)


def printed(command: argparse.ArgumentParser) -> None:
    command.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="what goes to stdout")


def network(command: argparse.ArgumentParser, who: str, when: str) -> None:
    command.add_argument(
        "--allow-network", action="store_true", help=f"let {who} reach the network and the Hub while {when}"
    )


def validation(command: argparse.ArgumentParser) -> None:
    printed(command)
    command.add_argument("--quiet", action="store_true", help="no progress, and only what decides the verdict")
    command.add_argument("--no-cache", action="store_true", help="observe again even where nothing changed")
    network(command, "environments", "they load")
    command.add_argument("--jobs", type=positive, metavar="N", help="environments at the same time (default: cores)")
    command.add_argument(
        "--shard",
        type=shard,
        metavar="K/N",
        help="only the K-th of N parts of equal work; envops report merge joins them",
    )
    command.add_argument(
        "--reports", type=Path, metavar="FOLDER", help="where the reports go (default: reports/ in the repository)"
    )


def model(command: argparse.ArgumentParser) -> None:
    """A real model instead of the scripted policies."""
    group = command.add_argument_group("how much, and a real model", "see docs/models.md")
    group.add_argument("-n", "--tasks", type=positive, metavar="N", help="on how many tasks")
    group.add_argument("-r", "--rollouts", type=positive, metavar="N", help="how many rollouts on each")
    group.add_argument("--endpoint", metavar="NAME", help="let this model of configs/endpoints.toml speak")
    group.add_argument(
        "--max-cost", type=cost, metavar="DOLLARS", help="what the run may cost at most (default: 1), or none"
    )


def cost(text: str) -> float | str:
    if text == "none":
        return text
    dollars = float(text)
    if not 0 <= dollars < float("inf"):
        raise argparse.ArgumentTypeError("must be dollars, or none")
    return dollars


def date(text: str) -> str:
    from datetime import date

    return date.fromisoformat(text).isoformat()


def amount(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError("must be a number of at least 0")
    return number


def shard(text: str) -> tuple[int, int]:
    index, _, of = text.partition("/")
    if not 1 <= int(index) <= int(of):
        raise argparse.ArgumentTypeError("must be K/N with K from 1 to N")
    return int(index), int(of)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
