"""`envwright release since`: the commit of the last release that ended well, in a workflow."""

from __future__ import annotations

import argparse
import sys

from envwright import exit_codes
from envwright.cli import arguments
from envwright.github.api import GitHub, GitHubError
from envwright.github.workflow_runs import commits_of_successes
from envwright.repository.git import git

EXAMPLES = """examples:
  envwright release since --workflow release.yml     the base of `envwright validate --changed` in a release

it prints nothing if no release ended well before; everything must then be proved
needs GITHUB_REPOSITORY and GITHUB_TOKEN (actions: read)
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--workflow", metavar="FILE", default="release.yml", help="its file name (default: release.yml)"
    )
    command.add_argument("--branch", metavar="NAME", default="main", help="the branch of its runs (default: main)")
    arguments.root(command)


def run(options: argparse.Namespace) -> int:
    """Print the newest ancestor of HEAD whose release succeeded as a whole."""
    root = options.root.absolute()
    try:
        commits = commits_of_successes(GitHub.of_workflow(), options.workflow, options.branch)
    except (GitHubError, KeyError, TypeError) as error:
        print(f"the runs of {options.workflow} cannot be read: {error}", file=sys.stderr)
        return exit_codes.ERROR
    for commit in commits:  # after a rewritten history, some are not ancestors
        if git(root, "merge-base", "--is-ancestor", commit, "HEAD").returncode == 0:
            print(commit)
            return exit_codes.PASS
    print("no release of an ancestor of HEAD has ended well: everything is proved", file=sys.stderr)
    return exit_codes.PASS
