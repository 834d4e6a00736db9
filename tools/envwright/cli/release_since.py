"""`envwright release since`: the commit of the last release that ended well, and whether one is due."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from envwright import exit_codes
from envwright.cli import arguments
from envwright.github.api import GitHub, GitHubError
from envwright.github.workflow_runs import commits_of_successes
from envwright.packages.changes import changed_environments, registry_at
from envwright.packages.git import git

EXAMPLES = """examples:
  envwright release since >> "$GITHUB_OUTPUT"     the outputs `commit` and `due` of a step

commit=  the base of `envwright validate --changed`; empty if no release ended well before: everything is proved
due=no   a push that changed no environment and no run since then, so its release has nothing to publish
needs GITHUB_REPOSITORY and GITHUB_TOKEN (actions: read)
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--workflow", metavar="FILE", default="release.yml", help="its file name (default: release.yml)"
    )
    command.add_argument("--branch", metavar="NAME", default="main", help="the branch of its runs (default: main)")
    arguments.root(command)


def run(options: argparse.Namespace) -> int:
    """Print the newest ancestor of HEAD whose release succeeded as a whole, and whether the next is due."""
    root = options.root.absolute()
    try:
        commits = commits_of_successes(GitHub.of_workflow(), options.workflow, options.branch)
    except (GitHubError, KeyError, TypeError) as error:
        print(f"the runs of {options.workflow} cannot be read: {error}", file=sys.stderr)
        return exit_codes.ERROR
    # after a rewritten history, some are not ancestors
    ancestors = (each for each in commits if git(root, "merge-base", "--is-ancestor", each, "HEAD").returncode == 0)
    commit = next(ancestors, "")
    if not commit:
        print("no release of an ancestor of HEAD has ended well: everything is proved", file=sys.stderr)
    print(f"commit={commit}\ndue={'yes' if _is_due(root, commit) else 'no'}")
    return exit_codes.PASS


def _is_due(root: Path, commit: str) -> bool:
    """Whether a declaration or an environment changed. A release that somebody started by hand is always due.

    A change of the tool alone publishes nothing, although every verdict may depend on it.
    """
    if not commit or os.environ.get("GITHUB_EVENT_NAME", "push") != "push" or registry_at(root, commit) is None:
        return True
    change = changed_environments(root, commit)
    return bool(change.names or change.removed or change.runs)
