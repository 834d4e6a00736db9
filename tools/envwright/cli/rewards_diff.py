"""`envwright rewards diff --against BASE`: one corpus of replies, scored by two versions of the code."""

from __future__ import annotations

import argparse

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import chosen_environments, print_grants
from envwright.observing.reward_diff import diff_rewards
from envwright.reports.printing import print_document
from envwright.reports.reward_diff import DiffResult, document, render_json

EXAMPLES = """examples:
  envwright rewards diff gsm8k --against main           which rewards changed since a revision
  envwright rewards diff gsm8k --against ../old/gsm8k   whether a port rewards like its original
  envwright rewards diff --changed --against main       for environments that differ from the main branch
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command)
    command.add_argument(
        "--against",
        required=True,
        metavar="PATH_OR_REV",
        help="score the same replies with the code of a revision of git or of another package's folder",
    )
    arguments.printed(command, "markdown")
    command.add_argument("-q", "--quiet", action="store_true", help="no progress")
    arguments.no_cache(command)
    arguments.network(command, "environments", "they load")
    arguments.reports(command)


def run(options: argparse.Namespace) -> int:
    """Compare the chosen environments with the base, write the reports and return the exit code."""
    choice = chosen_environments(options.root, options)
    print_grants(choice.repository, choice.names)
    result = diff_rewards(
        choice.repository,
        choice.names,
        options.against,
        options.reports,
        allow_network=options.allow_network,
        use_cache=not options.no_cache,
        quiet=options.quiet,
    )
    return print_diff(result, options.format)


def print_diff(result: DiffResult, form: str = "text") -> int:
    """Print the result and return its exit code."""
    print_document(form, render_json(result), document(result))
    return exit_codes.OF_VERDICT[result.verdict]
