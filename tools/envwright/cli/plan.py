"""`envwright plan`: the actions of a release, from git, the registry and the Hub. Changes nothing."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from envwright import exit_codes
from envwright.cli import arguments
from envwright.hub.access import HubUnavailable
from envwright.release.plan import make_plan
from envwright.release.plan_report import print_plan, write_plan
from envwright.system.subprocesses import Interrupted

EXAMPLES = """examples:
  envwright plan                          the whole registry against the Hub
  envwright plan --changed                what a merge of this branch would publish
  envwright plan --changed HEAD~1         what the last commit changed
  envwright plan --format markdown        for a job's summary

without a key the Hub is not queried, and the plan states this
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command)
    arguments.printed(command, "markdown")
    command.add_argument("-q", "--quiet", action="store_true", help="only changes and obstacles")
    arguments.reports(command)


def run(options: argparse.Namespace) -> int:
    """Plan, print, write reports/plan.json and plan.md, and return the exit code."""
    root: Path = options.root.absolute()
    try:
        planned = make_plan(root, options.names, options.changed, threading.Event())
    except HubUnavailable as error:
        print(error, file=sys.stderr)
        return exit_codes.USAGE
    except Interrupted:
        return exit_codes.INTERRUPTED
    scrubber = planned.access.scrubber
    write_plan(planned.plan, options.reports or root / "reports", scrubber)
    print_plan(planned.plan, options.format, scrubber, quiet=options.quiet)
    return exit_codes.OF_VERDICT[planned.plan.verdict]
