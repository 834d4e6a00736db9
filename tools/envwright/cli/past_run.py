"""`envwright ci past-run`: the id of an earlier run of a workflow, in a workflow that builds on its artifacts."""

from __future__ import annotations

import argparse
import sys

from envwright import exit_codes
from envwright.github.api import GitHub, GitHubError
from envwright.github.workflow_runs import is_commit, last_success, success_in_merge_queue

EXAMPLES = """examples:
  envwright ci past-run pages.yml                                the last run on main that succeeded
  envwright ci past-run validate.yml --queued COMMIT BASE        the run that proved COMMIT against BASE in the queue

it prints nothing if there is no such run
needs GITHUB_REPOSITORY and GITHUB_TOKEN (actions: read)
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("workflow", metavar="WORKFLOW", help="the file name of the workflow")
    command.add_argument("--branch", metavar="NAME", default="main", help="the branch of its runs (default: main)")
    command.add_argument(
        "--queued",
        nargs=2,
        metavar=("COMMIT", "BASE"),
        help="a run of the merge queue for this commit that compared it with this base",
    )


def run(options: argparse.Namespace) -> int:
    """Print the id of the run, if there is one, and return the exit code."""
    if options.queued and not all(map(is_commit, options.queued)):
        return exit_codes.PASS  # without a release before, there is no base that a run of the queue could have had
    try:
        github = GitHub.of_workflow()
        if options.queued:
            found = success_in_merge_queue(github, options.workflow, *options.queued)
        else:
            found = last_success(github, options.workflow, options.branch)
    except (GitHubError, KeyError, TypeError, ValueError) as error:
        print(f"the runs of {options.workflow} cannot be read: {error}", file=sys.stderr)
        return exit_codes.ERROR
    print(found or "", end="\n" if found else "")
    return exit_codes.PASS
