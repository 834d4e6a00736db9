"""`envwright release`: publish the planned changes, each environment on passing evidence; and `envwright plan`."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from envwright import exit_codes
from envwright.builds.machine import platform_checks, refuse_unready
from envwright.cli import arguments
from envwright.cli.questions import confirmed
from envwright.declarations.registry import load_registry
from envwright.release.ledger import LedgerFile, print_ledger
from envwright.release.plan import Planned, make_plan
from envwright.release.plan_report import print_plan, render_plan_text, write_plan
from envwright.release.publishable import ReleaseSettings
from envwright.release.release import carry_out_plan, outcome
from envwright.system.file_lock import AlreadyLocked, locked
from envwright.system.workspace import Workspace
from envwright.text.visible_text import on_one_line

EXAMPLES = {
    "release": """examples:
  envwright release --dry-run                         the plan, and nothing else
  envwright release                                   validate, publish, verify, submit runs
  envwright release --yes                             the same without a question, as a workflow has to
  envwright release --evidence reports/validate.json  on the evidence of an earlier job
  envwright release --evidence-only proven/           push what jobs without a key proved: no code of it runs here
  envwright release reverse-text                      one environment

reports/release.json lists the actions, written as they happen; a second run changes nothing, and verifies what an
interrupted one published
""",
    "plan": """examples:
  envwright plan                          the whole registry against the Hub
  envwright plan --changed                what a merge of this branch would publish
  envwright plan --changed HEAD~1         what the last commit changed
  envwright plan --format markdown        for a job's summary

without a key the Hub is not queried, and the plan states this
""",
}


def add_arguments_release(command: argparse.ArgumentParser) -> None:
    """The arguments of `plan`, and how much to do."""
    add_arguments_plan(command)
    command.add_argument("--dry-run", action="store_true", help="plan, and publish nothing")
    arguments.confirmation(command, "publish, and submit runs,")
    given = command.add_mutually_exclusive_group()
    given.add_argument(
        "--evidence",
        type=Path,
        metavar="FILE",
        help="evidence to use; only environments missing from it are validated here",
    )
    given.add_argument(
        "--evidence-only",
        type=Path,
        metavar="FOLDER",
        help="check the hashes of the wheels in FOLDER against its validate.json and push them: nothing is validated,"
        " built, installed or loaded here, no run is submitted, and what has no evidence is refused",
    )
    command.add_argument(
        "--since",
        metavar="COMMIT",
        default="",
        help="with --evidence-only: verify the published packages that changed since this commit (default: all of the"
        " evidence)",
    )


def run_release(options: argparse.Namespace) -> int:
    """Plan; publish unless it is a dry run; write reports/release.json; return the exit code."""
    root: Path = options.root
    load_registry(root)  # or a folder that is no repository would get a lock file
    try:
        if options.dry_run:
            return run_plan(options)
        Workspace(root).base.mkdir(parents=True, exist_ok=True)
        with locked(Workspace(root).base / "release.lock", wait=False):
            return _released(root, options.reports, options)
    except AlreadyLocked:
        print("another release of this checkout is running: wait until it ends", file=sys.stderr)
        return exit_codes.ERROR
    except OSError as error:
        print(f"nothing was published: {error.filename or root}: {error.strerror or error}", file=sys.stderr)
        return exit_codes.ERROR


def _released(root: Path, reports: Path, options: argparse.Namespace) -> int:
    stop = threading.Event()
    planned = make_plan(root, options.names, options.changed, stop)
    write_plan(planned.plan, reports, planned.access.scrubber)
    if planned.hub is None and (planned.plan.steps or any(run.action == "not-asked" for run in planned.plan.runs)):
        refuse_unready(platform_checks("release", planned.access, planned.prime, None))
    if planned.hub is not None and planned.plan.writes:
        refuse_unready(platform_checks("release", planned.access, planned.prime, planned.hub.identity))
    if not options.quiet:
        print(planned.access.scrubber.text(render_plan_text(planned.plan, quiet=True)), file=sys.stderr)
    if (question := _question(planned, options)) and not confirmed(question, options):
        return exit_codes.PASS
    file = carry_out_plan(root, planned, reports, arguments.settings(ReleaseSettings, options), stop)
    return _reported(file, planned, options)


def _question(planned: Planned, options: argparse.Namespace) -> str:
    """What the release would do; empty if it publishes and pays nothing."""
    runs = () if options.evidence_only else [run.name for run in planned.plan.runs if run.action == "submit"]
    names = [step.desired.address for step in planned.plan.writes]
    parts = [f"publish {', '.join(names)}" if names else "", f"submit {', '.join(runs)} to paid GPUs" if runs else ""]
    text = " and ".join(filter(None, parts))
    return f"{text[0].upper()}{text[1:]}?" if text else ""


def _reported(file: LedgerFile, planned: Planned, options: argparse.Namespace) -> int:
    """Print the result, and only then write it: a full disk must not hide what was published."""
    code, why = outcome(file.ledger, planned.plan.external)
    try:
        print_ledger(file, options.format)
    finally:
        file.close()
    if file.failed and code == exit_codes.PASS:
        code, why = exit_codes.ERROR, f"{file.failed}; the ledger was printed"
    if why:
        print(planned.access.scrubber.text(f"exit code {code}: {on_one_line(why)}"), file=sys.stderr)
    return code


def add_arguments_plan(command: argparse.ArgumentParser) -> None:
    arguments.selection(command)
    arguments.printed(command, "markdown")
    command.add_argument("-q", "--quiet", action="store_true", help="only changes and obstacles")
    arguments.reports(command)


def run_plan(options: argparse.Namespace) -> int:
    """Plan, print, write reports/plan.json and plan.md, and return the exit code."""
    planned = make_plan(options.root, options.names, options.changed, threading.Event())
    write_plan(planned.plan, options.reports, planned.access.scrubber)
    print_plan(planned.plan, options.format, planned.access.scrubber, quiet=options.quiet)
    return exit_codes.OF_VERDICT[planned.plan.verdict]
