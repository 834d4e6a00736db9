"""`envwright ci comment`: the comment of a pull request, in a job that only reads the artifact of another run."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from envwright import exit_codes
from envwright.declarations.problem import DeclarationError
from envwright.github.api import GitHub, GitHubError
from envwright.github.comment import LONGEST, MARK, comment, pull_request_of
from envwright.reports.comment import conversation, sarif_of
from envwright.reports.printing import write_report

EXAMPLES = """examples:
  envwright ci comment artifact/             in a workflow_run job, with GITHUB_TOKEN
  envwright ci comment reports/ --dry-run    print it instead
  envwright ci comment artifact/ --sarif F   and write the findings for code scanning
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("folder", type=Path, metavar="FOLDER", help="validate.json and plan.json; not trusted")
    command.add_argument("--dry-run", action="store_true", help="print the comment without sending it")
    command.add_argument(
        "--sarif",
        type=Path,
        metavar="FILE",
        help="write the findings as SARIF too, if the pull request is open; its number goes to GITHUB_OUTPUT",
    )


def run(options: argparse.Namespace) -> int:
    """Make or edit the comment and return the exit code; a pull request with another head is left unchanged."""
    try:
        event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_bytes())
        address = str(event["workflow_run"]["html_url"])
    except (KeyError, OSError, ValueError, TypeError):
        print("GITHUB_EVENT_PATH does not name a workflow_run event: this command runs in a workflow", file=sys.stderr)
        return exit_codes.USAGE
    try:
        text = conversation(options.folder, LONGEST - len(MARK), address)
    except (DeclarationError, ArithmeticError, ValueError) as error:  # a number may be too large to be shown
        text = f"## ⚠️ no report\n\nThe run ended without a readable report.\n\n[The run]({address})\n"
        print(error, file=sys.stderr)
    if options.dry_run:
        print(text, end="")
        return exit_codes.PASS
    try:
        github = GitHub.of_workflow()
        number = pull_request_of(github, event)
        if number is None:
            print("no open pull request has this commit at its head any more: no comment was made", file=sys.stderr)
            return exit_codes.PASS
        print(f"comment of pull request {number}: {comment(github, number, text)}")
    except GitHubError as error:
        print(f"GitHub: {error}", file=sys.stderr)
        return exit_codes.ERROR
    if options.sarif:
        _write_sarif(options.folder, options.sarif, number)
    return exit_codes.PASS


def _write_sarif(folder: Path, file: Path, number: int) -> None:
    """Write the findings, rendered here from data that is not trusted; without a report that can be read, nothing."""
    try:
        write_report(file, sarif_of(folder))
    except (DeclarationError, ArithmeticError, ValueError):
        return  # the comment has the reason
    if output := os.environ.get("GITHUB_OUTPUT"):
        with Path(output).open("a", encoding="utf-8") as outputs:
            outputs.write(f"number={number}\n")
