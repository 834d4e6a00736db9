"""`envwright release`: publish the planned changes, each environment on passing evidence; and `envwright plan`."""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envwright import __version__, exit_codes
from envwright.builds.machine import platform_checks, refuse_unready
from envwright.cli import arguments
from envwright.cli.questions import confirmed
from envwright.cli.release_evidence import Proven, handed_over, proven_here, run_without_key
from envwright.declarations.problem import DeclarationError, Problem
from envwright.declarations.registry import load_registry
from envwright.declarations.tool_source import REGISTRY_FILE
from envwright.hub.access import HubUnavailable
from envwright.packages.git import git, head_of
from envwright.packages.repository import ENVIRONMENTS_FOLDER, Repository
from envwright.release.ledger import PUBLISHED, LedgerFile, LedgerUnreadable, ReleaseLedger, print_ledger
from envwright.release.loading import LOADED, join_loaded, read_loaded
from envwright.release.plan import Planned, PlannedRun, make_plan
from envwright.release.plan_report import print_plan, render_plan_text, write_plan
from envwright.release.publishing import Verified
from envwright.release.release import Release, outcome
from envwright.system.file_lock import AlreadyLocked, locked
from envwright.system.subprocesses import Interrupted, terminated_like_interrupted
from envwright.system.workspace import Workspace
from envwright.text.visible_text import on_one_line
from envwright.training.due import Situation, carry_out, decided_runs
from envwright.training.submit import Submission, SubmissionOutcome

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
    root: Path = options.root.absolute()
    reports: Path = options.reports or root / "reports"
    load_registry(root)  # or a folder that is no repository would get a lock file
    try:
        if options.dry_run:
            return _planned_only(root, reports, options)
        with locked(_lock(root), wait=False):
            return _released(root, reports, options)
    except AlreadyLocked:
        print("another release of this checkout is running: wait until it ends", file=sys.stderr)
        return exit_codes.ERROR
    except OSError as error:
        print(f"nothing was published: {error.filename or root}: {error.strerror or error}", file=sys.stderr)
        return exit_codes.ERROR


def _lock(root: Path) -> Path:
    folder = Workspace(root).base
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "release.lock"


def _planned_only(root: Path, reports: Path, options: argparse.Namespace) -> int:
    planned = make_plan(root, options.names, options.changed, threading.Event())
    write_plan(planned.plan, reports, planned.access.scrubber)
    print_plan(planned.plan, options.format, planned.access.scrubber, quiet=options.quiet)
    return exit_codes.OF_VERDICT[planned.plan.verdict]


def _released(root: Path, reports: Path, options: argparse.Namespace) -> int:
    stop = threading.Event()
    planned = make_plan(root, options.names, options.changed, stop)
    write_plan(planned.plan, reports, planned.access.scrubber)
    _refuse_to_write(planned)
    if not options.quiet:
        print(planned.access.scrubber.text(render_plan_text(planned.plan, quiet=True)), file=sys.stderr)
    if (question := _question(planned, options)) and not confirmed(question, options):
        return exit_codes.PASS
    if options.evidence_only:
        proven = handed_over(root, planned, options, reports)
    else:
        proven = proven_here(root, planned, options, reports, stop)
    file = _applied(root, planned, proven, reports, stop, options)
    return _reported(file, planned, options)


def _question(planned: Planned, options: argparse.Namespace) -> str:
    """What the release would do; empty if it publishes and pays nothing."""
    runs = () if options.evidence_only else [run.name for run in planned.plan.runs if run.action == "submit"]
    names = [step.desired.address for step in planned.plan.writes]
    parts = [f"publish {', '.join(names)}" if names else "", f"submit {', '.join(runs)} to paid GPUs" if runs else ""]
    text = " and ".join(filter(None, parts))
    return f"{text[0].upper()}{text[1:]}?" if text else ""


def _refuse_to_write(planned: Planned) -> None:
    if planned.hub is None and (planned.plan.steps or any(run.action == "not-asked" for run in planned.plan.runs)):
        refuse_unready(platform_checks("release", planned.access, planned.prime, None))
    if planned.hub is not None and planned.plan.writes:
        refuse_unready(platform_checks("release", planned.access, planned.prime, planned.hub.identity))


def _loaded(root: Path, file: LedgerFile, *, quiet: bool) -> None:
    """Install and load what was published, in a process that has no key, and put the results into the ledger."""
    ledger = file.ledger
    if not any(entry.waits_for_loading for entry in ledger.entries):
        return
    results = file.folder / LOADED
    loaded: Mapping[str, Verified] = {}
    try:
        results.unlink(missing_ok=True)
        run_without_key(["release", "verify", str(file.folder)], root, file.folder, {}, quiet=quiet)
        loaded = read_loaded(results, ledger.commit)
    except (OSError, LedgerUnreadable) as error:
        print(f"what was published could not be installed and loaded: {error}", file=sys.stderr)
    for entry in list(join_loaded(ledger.entries, loaded)):
        file.record(entry)


def _applied(
    root: Path,
    planned: Planned,
    proven: Proven,
    reports: Path,
    stop: threading.Event,
    options: argparse.Namespace,
) -> LedgerFile:
    """Carry out the plan and record what happens as it happens, even if it is interrupted.

    Raises `OSError` where the ledger cannot be written before anything is published.
    """
    commit = head_of(root)
    ledger = ReleaseLedger(commit, planned.plan.whose, planned.plan.prime, __version__, earlier=proven.unreached)
    file = LedgerFile(ledger, reports, planned.access.scrubber)
    if planned.prime is None or planned.hub is None:
        ledger.runs = _not_due(planned.plan.runs)
        return file
    release = Release(
        _repository(root, planned),
        planned.prime,
        planned.access,
        planned.hub.identity,
        proven.evidence,
        proven.no_evidence,
        proven.wheel_of,
        proven.earlier,
        _uncommitted(root, planned),
        reports / PUBLISHED,
        file.begin_push,
        stop,
        (lambda _: None) if options.quiet else lambda text: print(planned.access.scrubber.text(text), file=sys.stderr),
    )
    ledger.entries = [release.not_reached(step) for step in planned.plan.steps]
    ledger.interrupted = True  # until it has ended: a killed release leaves this behind
    file.begin()
    shutil.rmtree(reports / PUBLISHED, ignore_errors=True)
    try:
        with terminated_like_interrupted():
            release.apply(planned.plan, file.record)
            if not options.evidence_only:
                _loaded(root, file, quiet=options.quiet)
                lost = {entry.step.desired.name for entry in ledger.entries if not entry.is_ready}
                ready = planned.there - lost | {each.step.desired.name for each in ledger.entries if each.is_ready}
                situation = Situation(root, planned.registry, planned.access, planned.prime, ready, stop)
                ledger.runs = _submitted(situation, planned.plan.runs)
        ledger.interrupted = False
    except (KeyboardInterrupt, Interrupted):
        ledger.interrupted = True
    return file


def _submitted(situation: Situation, planned: tuple[PlannedRun, ...]) -> list[dict[str, Any]]:
    """The results of the runs; an error in one does not lose the record of the release."""
    due = [run.name for run in planned if run.action == "submit"]
    others = _not_due(planned)
    try:
        submitted = [asdict(carry_out(situation, each)) for each in decided_runs(situation, due)] if due else []
        return [*others, *submitted]
    except Interrupted:
        raise
    except Exception as error:
        expected = isinstance(error, DeclarationError | HubUnavailable)
        named = str(error) if expected else f"envwright failed here: {type(error).__name__}: {error}"
        result = situation.access.scrubber.text(named)
        said_next = "envwright train: it reads the list of runs first"
        return [*others, *(asdict(Submission(name, "unknown", result, said_next)) for name in due)]


def _not_due(planned: Iterable[PlannedRun]) -> list[dict[str, Any]]:
    """The runs that the plan refused or could not decide on; the release ends as the plan does."""
    outcomes: dict[str, SubmissionOutcome] = {"refused": "failed", "unreadable": "unknown"}
    return [
        asdict(Submission(run.name, outcomes[run.action], run.reason, run.next))
        for run in planned
        if run.action in outcomes
    ]


def _repository(root: Path, planned: Planned) -> Repository:
    """The packages to publish, or whose evaluations may be pushed."""
    entries = planned.registry.environments
    names = {step.desired.name for step in planned.plan.steps if entries[step.desired.name].publish_evals}
    names |= {step.desired.name for step in planned.plan.writes}
    return Repository.load(root, sorted(names)) if names else Repository(root, planned.registry, {})


def _uncommitted(root: Path, planned: Planned) -> dict[str, str]:
    """Uncommitted files of each environment to publish; empty without git."""
    status = git(root, "status", "--porcelain", "--untracked-files=all", "--", REGISTRY_FILE, ENVIRONMENTS_FOLDER)
    if status.returncode != 0 and (root / ".git").exists():
        message = status.stderr.decode(errors="replace").strip()
        raise DeclarationError([Problem(".git", None, f"git cannot list uncommitted files: {message}")])
    files = [line[3:].strip('"') for line in status.stdout.decode(errors="replace").splitlines()]
    found = {}
    for step in planned.plan.writes:
        folder = f"{ENVIRONMENTS_FOLDER}/{planned.registry.environments[step.desired.name].folder_name}/"
        own = [file for file in files if folder in file or file.endswith(REGISTRY_FILE)]
        if own:
            found[step.desired.name] = ", ".join(own[:3]) + (" …" if len(own) > 3 else "")
    return found


def _reported(file: LedgerFile, planned: Planned, options: argparse.Namespace) -> int:
    """Print the result, and only then write it: a full disk must not hide what was published."""
    code, why = _outcome(file.ledger, planned)
    try:
        print_ledger(file, options.format)
    finally:
        file.close()
    if file.failed and code == exit_codes.PASS:
        code, why = exit_codes.ERROR, f"{file.failed}; the ledger was printed"
    if why:
        print(planned.access.scrubber.text(f"exit code {code}: {on_one_line(why)}"), file=sys.stderr)
    return code


def _outcome(ledger: ReleaseLedger, planned: Planned) -> tuple[int, str]:
    """The exit code, and why it is not 0; external environments must exist as well."""
    absent = [*_external_with(planned, {"missing", "no-access"})]
    return outcome(ledger, absent, [*_external_with(planned, {"unreadable"})])


def _external_with(planned: Planned, standings: set[str]) -> Iterator[str]:
    """External environments that a run needs and that cannot be used."""
    for each in planned.plan.external:
        if each.standing in standings:
            message = f"{each.address}, an environment of the Hub, is {each.standing} there"
            yield f"{message}: correct its hub address or its version in registry.yaml"


def add_arguments_plan(command: argparse.ArgumentParser) -> None:
    arguments.selection(command)
    arguments.printed(command, "markdown")
    command.add_argument("-q", "--quiet", action="store_true", help="only changes and obstacles")
    arguments.reports(command)


def run_plan(options: argparse.Namespace) -> int:
    """Plan, print, write reports/plan.json and plan.md, and return the exit code."""
    root: Path = options.root.absolute()
    return _planned_only(root, options.reports or root / "reports", options)
