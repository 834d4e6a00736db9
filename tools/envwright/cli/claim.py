"""`envwright ci claim`: allow one evaluation per commit of a pull request."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from envwright import exit_codes
from envwright.cli import arguments
from envwright.github.api import GitHub, GitHubError
from envwright.github.commit_status_lock import claim, close

EXAMPLES = """examples:
  envwright ci claim 12                      prints the head commit of pull request 12, once, and who approves
  envwright ci claim --close COMMIT success  records the outcome
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument("number", nargs="?", type=arguments.positive, metavar="PULL_REQUEST", help="whose head commit")
    which.add_argument(
        "--close", nargs=2, metavar=("COMMIT", "RESULT"), help="a commit and the outcome of its evaluation"
    )


def run(options: argparse.Namespace) -> int:
    """Claim a pull request's head commit, or record the outcome of its evaluation, and return the exit code."""
    try:
        github = GitHub.of_workflow()
        if options.close:
            commit, result = options.close
            close(github, commit, result)
            return exit_codes.PASS
        claimed = claim(github, options.number)
    except GitHubError as error:
        print(f"GitHub: {error}", file=sys.stderr)
        return exit_codes.ERROR
    if claimed.refusal:
        print(claimed.refusal, file=sys.stderr)
        return exit_codes.FAIL
    print(claimed.commit)
    print(claimed.approval)
    if output := os.environ.get("GITHUB_OUTPUT"):
        with Path(output).open("a", encoding="utf-8") as file:
            file.write(f"commit={claimed.commit}\n")
    return exit_codes.PASS
