"""`envwright report open`: the HTML report of the last run."""

from __future__ import annotations

import argparse
import sys
import webbrowser
from pathlib import Path

from envwright import exit_codes
from envwright.cli import arguments
from envwright.reports.html.written import write_page

EXAMPLES = """examples:
  envwright report open                     show reports/validate.html in the browser
  envwright report open --print             only print its path
  envwright report open --reports out/
  envwright report open --one-file          write the transcripts into the page, to send it as one file
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.root(command)
    arguments.reports(command, "the reports are")
    command.add_argument("--print", action="store_true", help="only print the report's path")
    command.add_argument(
        "--one-file", action="store_true", help="write the transcripts into the page; without it they are files beside"
    )


def run(options: argparse.Namespace) -> int:
    """Rewrite the page from the folder of reports, and show it."""
    folder: Path = (options.reports or options.root / "reports").absolute()
    if not (folder / "validate.json").is_file():
        print(f"{folder} holds no validate.json\nrun first: envwright validate", file=sys.stderr)
        return exit_codes.USAGE
    page = write_page(folder, one_file=options.one_file)
    print(page)
    if not options.print and not webbrowser.open(page.as_uri()):
        print("no browser was found", file=sys.stderr)
    return exit_codes.PASS
