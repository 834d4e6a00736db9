"""`envops release since`: the commit of the last release that ended well, in a workflow."""

from __future__ import annotations

import argparse
import re
import sys

from envops import exit_codes
from envops.cli import arguments
from envops.github.api import GitHub, GitHubError
from envops.repository.git import git

EXAMPLES = """examples:
  envops release since --workflow release.yml     the base of `envops validate --changed` in a release

it prints nothing if no release ended well before; everything must then be proved
needs GITHUB_REPOSITORY and GITHUB_TOKEN (actions: read)
"""
LOOKED_AT = 100
"""Successful runs, the newest first. A commit that is not one of HEAD's ancestors is of another history."""


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
        path = f"actions/workflows/{options.workflow}/runs"
        answer = GitHub.of_workflow().get(path, branch=options.branch, status="success", per_page=LOOKED_AT)
        commits = [str(each["head_sha"]) for each in answer["workflow_runs"]]
        commits = [commit for commit in commits if re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", commit)]
    except (GitHubError, KeyError, TypeError) as error:
        print(f"the runs of {options.workflow} cannot be read: {error}", file=sys.stderr)
        return exit_codes.ERROR
    for commit in commits:
        if git(root, "merge-base", "--is-ancestor", commit, "HEAD").returncode == 0:
            print(commit)
            return exit_codes.PASS
    print("no release of an ancestor of HEAD has ended well: everything is proved", file=sys.stderr)
    return exit_codes.PASS
