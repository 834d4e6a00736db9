"""Trying a release without a key: the Hub on loopback, the whole way, and what CI says about it."""

from __future__ import annotations

import argparse
from pathlib import Path

from envops.cli.arguments import Commands, command, positive, root, selection

EMULATOR_EXAMPLES = """examples:
  envops emulator --port 8100        then, with the variables that it prints: prime env list --mine
  envops emulator --fault 'POST /environmentshub/*/versions/*/finalize status code=503 effect=done'
  envops emulator --assume halves=wedged --assume same-content=400
  envops emulator --assumptions      what is measured and what is assumed about the real Hub
"""
REHEARSE_EXAMPLES = """examples:
  envops rehearse                      everything, without a key: prove, plan, release, release again, train
  envops rehearse reverse-text         one environment
  envops rehearse reverse-text --fault 'POST /environmentshub/*/versions status code=503'

it works on a copy with a home of its own: nothing here and nothing on the real Hub is changed
"""
COMMENT_EXAMPLES = """examples:
  envops comment artifact/             in a workflow_run job, with GITHUB_TOKEN
  envops comment reports/ --dry-run    print what it would say
"""
CLAIM_EXAMPLES = """examples:
  envops claim 12                      prints the head commit of pull request 12, once
  envops claim --close COMMIT success  says how it ended
"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them."""
    _emulator(commands)
    _rehearse(commands)
    comment = command(
        commands, "comment", "the one comment of a pull request, from a run's report", "comment", COMMENT_EXAMPLES
    )
    comment.add_argument("folder", type=Path, metavar="FOLDER", help="validate.json and plan.json; not trusted")
    comment.add_argument("--dry-run", action="store_true", help="print the comment and ask GitHub nothing")
    claim = command(commands, "claim", "let an evaluation happen once per commit", "claim", CLAIM_EXAMPLES)
    which = claim.add_mutually_exclusive_group(required=True)
    which.add_argument("number", nargs="?", type=positive, metavar="PULL_REQUEST", help="whose head commit")
    which.add_argument("--close", nargs=2, metavar=("COMMIT", "RESULT"), help="a commit, and how its evaluation ended")


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
    _weather(emulator)
    emulator.add_argument("--assumptions", action="store_true", help="print what is known and what is assumed")


def _rehearse(commands: Commands[argparse.ArgumentParser]) -> None:
    rehearse = command(
        commands,
        "rehearse",
        "the whole way from a merge to published environments and submitted runs, on loopback, without a key",
        "rehearse",
        REHEARSE_EXAMPLES,
    )
    selection(rehearse, changed=False)
    _weather(rehearse)
    rehearse.add_argument("--format", choices=("text", "json"), default="text", help="what goes to stdout")
    rehearse.add_argument("--quiet", action="store_true", help="of every step only what decides")


def _weather(command: argparse.ArgumentParser) -> None:
    """What the Hub on loopback is like."""
    command.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="FAULT",
        help="what goes wrong: METHOD PATH status|reset|cut-upload|delay|later|garbage KEY=VALUE…",
    )
    command.add_argument(
        "--assume", action="append", default=[], metavar="QUESTION=ANSWER", help="another answer to an open question"
    )
