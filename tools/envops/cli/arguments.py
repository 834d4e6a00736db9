"""Common arguments of several commands, and the types of their values."""

from __future__ import annotations

import argparse
from pathlib import Path


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
            help="only those that differ from the commit where this branch left BASE (default: the main branch)",
        )
    root(command)


def printed(command: argparse.ArgumentParser, *forms: str) -> None:
    """The form of the output; `text` and `json` are always offered."""
    command.add_argument("--format", choices=("text", "json", *forms), default="text", help="form of the output")


def extent(command: argparse.ArgumentParser) -> None:
    """The printed part of the result; the reports have all of it."""
    group = command.add_mutually_exclusive_group()
    group.add_argument("--quiet", action="store_true", help="no progress, and only findings that decide the verdict")
    group.add_argument("-v", "--verbose", action="store_true", help="every finding with its whole evidence")


def network(command: argparse.ArgumentParser, who: str, when: str) -> None:
    command.add_argument(
        "--allow-network", action="store_true", help=f"let {who} reach the network and the Hub while {when}"
    )


def model(command: argparse.ArgumentParser, speaker: argparse._ActionsContainer | None = None) -> None:
    """A real model and its limits; `speaker` is the group of `--endpoint`."""
    group = command.add_argument_group("size, and a real model", "see docs/models.md")
    group.add_argument("-n", "--tasks", type=positive, metavar="N", help="number of tasks")
    group.add_argument("-r", "--rollouts", type=positive, metavar="N", help="number of rollouts on each")
    (speaker or group).add_argument(
        "--endpoint",
        "--model",
        metavar="NAME",
        help="use this model: a name or model of configs/endpoints.toml, or owner/model of Prime Inference",
    )
    split(group, "train")
    max_cost(group, "the run")
    scripted_judge(group)


def scripted_judge(command: argparse._ActionsContainer) -> None:
    command.add_argument(
        "--scripted-judge",
        action="store_true",
        help="let a scripted judge decide instead of the declared model, and name it in results",
    )


def split(command: argparse._ActionsContainer, default: str) -> None:
    """The split whose tasks are played; no default in the parser, so that a command knows whether it was given."""
    text = f"the tasks to train on, or those held out for evaluation (default: {default})"
    command.add_argument("--split", choices=("train", "eval"), help=text)


def max_cost(command: argparse._ActionsContainer, what: str) -> None:
    command.add_argument(
        "--max-cost", type=cost, metavar="DOLLARS", help=f"maximum dollars for {what} (default: 1), or none"
    )


def reports(command: argparse._ActionsContainer, what: str = "the reports go") -> None:
    command.add_argument(
        "--reports", type=Path, metavar="FOLDER", help=f"where {what} (default: reports/ in the repository)"
    )


def cost(text: str) -> float | str:
    if text == "none":
        return text
    dollars = float(text)
    if not 0 <= dollars < float("inf"):
        raise argparse.ArgumentTypeError("must be dollars, or none")
    return dollars


def amount(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError("must be a number of at least 0")
    return number


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
