"""`envops rewards NAME --reply TEXT`: one reply, function by function."""

from __future__ import annotations

import argparse
import sys
import threading

from envops import exit_codes
from envops.reports.printing import for_terminal, print_text
from envops.repository.repository import Repository
from envops.repository.workspace import Workspace
from envops.system.subprocesses import ProgramFailed
from envops.validation.job import StageFailed
from envops.validation.reply import OneReplyError, UnknownTaskError, render_json, render_text, reply_to


def run(options: argparse.Namespace) -> int:
    """Score what was given on the command line and print what came of it."""
    root = options.root.absolute()
    if len(options.names) != 1 or options.reply.count("-") > 1:
        said = "--reply belongs to one environment" if len(options.names) != 1 else "standard input can be read once"
        print(f'{said}: envops rewards NAME --reply "TEXT" --task 3', file=sys.stderr)
        return exit_codes.USAGE
    repository = Repository.load(root, options.names)
    (name,) = repository.select(options.names)
    package = repository.packages[name]
    turns = [sys.stdin.read() if turn == "-" else turn for turn in options.reply]
    if options.task is not None and options.task < 0:
        print(f"tasks are counted from 0: there is no task {options.task}", file=sys.stderr)
        return exit_codes.USAGE
    stop = threading.Event()
    try:
        replied = reply_to(
            repository.registry.environments[name],
            package,
            Workspace(root),
            options.task or 0,
            turns,
            allow_network=options.allow_network,
            stop=stop,
        )
    except (UnknownTaskError, OneReplyError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return exit_codes.USAGE
    except (StageFailed, ProgramFailed) as error:
        print(f"{name} could not be asked: {error.failure.type}: {error.failure.message}", file=sys.stderr)
        own = error.failure.kind in ("raised", "missing-secret", "network")
        return exit_codes.FAIL if own else exit_codes.ERROR
    if options.format == "json":
        print_text(for_terminal(lambda _width, _colour: render_json(package, replied)))
    else:
        print_text(for_terminal(lambda width, colour: render_text(package, replied, width=width, colour=colour)))
    return exit_codes.PASS if replied.reward is not None else exit_codes.FAIL
