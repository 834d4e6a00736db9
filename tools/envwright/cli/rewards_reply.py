"""`envwright rewards reply NAME [TEXT…]`: one reply, function by function."""

from __future__ import annotations

import argparse
import sys
import threading

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import named_environment
from envwright.exit_codes import CommandError
from envwright.observing.job import failing_as
from envwright.observing.reply import render_json, render_text, reply_to, turn_of
from envwright.reports.printing import for_terminal, print_text
from envwright.system.workspace import Workspace

EXAMPLES = """examples:
  envwright rewards reply gsm8k "#### 42" --task 3
  envwright rewards reply number-guess "<guess>7</guess>" "<guess>9</guess>"    the turns of a conversation
  envwright rewards reply gsm8k - < reply.txt                                   from standard input
  envwright rewards reply gsm8k --task 3                                        the oracle's reply
  envwright rewards reply ledger - "120" < call.json                            a turn that calls tools, then the answer
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.environment(command)
    command.add_argument(
        "replies",
        nargs="*",
        metavar="TEXT",
        help="the reply, or - to read it; several are the turns of a conversation, and"
        ' {"tool_calls": [{"name": …, "arguments": {…}}]} is a turn that calls tools (default: the oracle\'s reply)',
    )
    # Before 3.13, argparse gives an optional list nothing that follows an option: `reply NAME --task 3 TEXT`.
    command.set_defaults(rest="replies")
    command.add_argument("--task", type=int, default=0, metavar="INDEX", help="index of the task (default: 0)")
    arguments.environment_arguments(command, "arguments of the environment on top of the registry's `args`, in JSON")
    arguments.printed(command)
    arguments.network(command, "the environment", "it loads")


def run(options: argparse.Namespace) -> int:
    """Score the reply of the command line and print the result."""
    if options.replies.count("-") > 1:
        raise CommandError("standard input can be read once: only one TEXT may be -")
    entry, package = named_environment(options)
    turns = [turn_of(sys.stdin.read() if turn == "-" else turn) for turn in options.replies]
    if options.task < 0:
        raise CommandError(f"tasks are counted from 0: there is no task {options.task}")
    workspace, network = Workspace(options.root), options.allow_network
    with failing_as(f"{entry.name} could not be scored"):
        replied = reply_to(
            entry, package, workspace, options.task, turns, allow_network=network, stop=threading.Event()
        )
    if options.format == "json":
        print_text(for_terminal(lambda _width, _colour: render_json(package, replied)))
    else:
        print_text(for_terminal(lambda width, colour: render_text(package, replied, width=width, colour=colour)))
    return exit_codes.PASS if replied.reward is not None else exit_codes.FAIL
