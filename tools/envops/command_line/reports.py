"""Reports that were written: look at them."""

from __future__ import annotations

import argparse
from pathlib import Path

from envops.command_line.arguments import Commands, command, root

REPORT_EXAMPLES = """examples:
  envops report open                     show reports/validate.html in the browser
  envops report open --print             only say where it is
  envops report open --reports out/
"""
OPEN_EXAMPLES = """examples:
  envops report open
  envops report open --reports out/
"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them."""
    report = command(commands, "report", "look at reports that were written", "report", REPORT_EXAMPLES)
    actions = report.add_subparsers(title="what to do", metavar="ACTION", dest="action", required=True)
    _open(actions)


def _open(actions: Commands[argparse.ArgumentParser]) -> None:
    opened = command(actions, "open", "show the HTML report in the browser", "report", OPEN_EXAMPLES)
    root(opened)
    opened.add_argument(
        "--reports", type=Path, metavar="FOLDER", help="where the reports are (default: reports/ in the repository)"
    )
    opened.add_argument("--print", action="store_true", help="open nothing, only say where the report is")
