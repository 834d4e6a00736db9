"""What becomes of a merge: the plan, the release, and the version that it needs."""

from __future__ import annotations

import argparse
from pathlib import Path

from envops.cli.arguments import Commands, command, printed, root, selection

PLAN_EXAMPLES = """examples:
  envops plan                          the whole registry against the Hub
  envops plan --changed                what a merge of this branch would publish
  envops plan --changed HEAD~1         what the last commit changed
  envops plan --format markdown        for a job's summary

without a key nothing is asked of the Hub, and the plan says so
"""
RELEASE_EXAMPLES = """examples:
  envops release --dry-run                         the plan, and nothing else
  envops release                                   validate (cached), publish, verify, submit runs
  envops release --evidence reports/validate.json  on the evidence of an earlier job
  envops release reverse-text                      one environment

what it did is in reports/release.json; applied twice it changes nothing the second time
"""
BUMP_EXAMPLES = """examples:
  envops bump reverse-text                 0.1.2 to 0.1.3: nothing that can change a reward
  envops bump reverse-text --minor         0.1.2 to 0.2.0: rewards can have changed
  envops bump reverse-text --above 0.4.1   to 0.4.2: past what is on the Hub
"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them."""
    plan = command(commands, "plan", "what a release would publish; changes nothing", "plan", PLAN_EXAMPLES)
    selection(plan)
    output(plan)
    release = command(
        commands, "release", "publish what the plan says, on passing evidence", "release", RELEASE_EXAMPLES
    )
    selection(release)
    output(release)
    release.add_argument("--dry-run", action="store_true", help="plan, and publish nothing")
    release.add_argument(
        "--evidence",
        type=Path,
        metavar="FILE",
        help="a validate.json to go by; only what it does not name is validated here",
    )
    _bump(commands)


def _bump(commands: Commands[argparse.ArgumentParser]) -> None:
    bump = command(commands, "bump", "raise the version of environments by one step", "bump", BUMP_EXAMPLES)
    bump.add_argument("names", nargs="+", metavar="NAME", help="environments")
    root(bump)
    step = bump.add_mutually_exclusive_group()
    step.add_argument("--minor", action="store_const", dest="step", const="minor", help="rewards can have changed")
    step.add_argument("--major", action="store_const", dest="step", const="major", help="users must change something")
    bump.add_argument("--above", metavar="VERSION", help="the step begins here, where that is higher")
    bump.set_defaults(step="patch")


def output(command: argparse.ArgumentParser) -> None:
    """What is printed, and where reports go."""
    printed(command)
    command.add_argument("--quiet", action="store_true", help="only what would change or cannot be done")
    command.add_argument(
        "--reports", type=Path, metavar="FOLDER", help="where the reports go (default: reports/ in the repository)"
    )
