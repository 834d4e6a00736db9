"""`envops release`: publish the planned changes, each environment on passing evidence for exactly its files."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from envops import __version__, exit_codes
from envops.cli import plan
from envops.files.atomic_write import write_whole
from envops.hub.access import HubUnavailable
from envops.models.relay import hide_memory
from envops.release.evidence import NoEvidence, ValidationEvidence, read_evidence
from envops.release.ledger import LedgerEntry, ReleaseLedger, render_release_markdown, render_release_text
from envops.release.plan import Planned, PlannedRun, make_plan
from envops.release.plan_report import print_plan, render_plan_text, write_plan
from envops.release.release import Release
from envops.reports.printing import append_to_summary, print_text
from envops.repository.git import git
from envops.repository.problem import DeclarationError, Problem
from envops.repository.registry import REGISTRY_FILE, load_registry
from envops.repository.repository import ENVIRONMENTS_FOLDER, Repository
from envops.repository.workspace import Workspace
from envops.system.subprocesses import Interrupted
from envops.system.termination import terminated_like_interrupted
from envops.text.scrubbing import SECRET_NAME
from envops.text.visible_text import on_one_line
from envops.training.due import Situation, carry_out, decided_runs
from envops.training.submit import Submission, SubmissionOutcome

EXAMPLES = """examples:
  envops release --dry-run                         the plan, and nothing else
  envops release                                   validate (cached), publish, verify, submit runs
  envops release --evidence reports/validate.json  on the evidence of an earlier job
  envops release reverse-text                      one environment

reports/release.json lists the actions; a second run changes nothing
"""

LEDGER = "release.json"


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of `plan`, and how much to do."""
    plan.add_arguments(command)
    command.add_argument("--dry-run", action="store_true", help="plan, and publish nothing")
    command.add_argument(
        "--evidence",
        type=Path,
        metavar="FILE",
        help="evidence to use; only environments missing from it are validated here",
    )


def run(options: argparse.Namespace) -> int:
    """Plan; publish unless it is a dry run; write reports/release.json; return the exit code."""
    root: Path = options.root.absolute()
    reports: Path = options.reports or root / "reports"
    stop = threading.Event()
    hide_memory()  # it holds the key, and what is validated and loaded beside it is other people's code
    try:
        planned = make_plan(root, options.names, options.changed, stop)
        write_plan(planned.plan, reports, planned.access.scrubber)
        if options.dry_run:
            print_plan(planned.plan, options.format, planned.access.scrubber, quiet=options.quiet)
            return exit_codes.OF_VERDICT[planned.plan.verdict]
        _refuse_to_write(planned)
        evidence, why = _evidence(root, planned, options.evidence, reports, quiet=options.quiet)
    except (HubUnavailable, NoEvidence) as error:
        print(error, file=sys.stderr)
        return exit_codes.USAGE
    except Interrupted:
        return exit_codes.INTERRUPTED
    if not options.quiet:
        print(planned.access.scrubber.text(render_plan_text(planned.plan, quiet=True)), file=sys.stderr)
    ledger = _applied(root, planned, evidence, why, stop, quiet=options.quiet)
    return _reported(ledger, planned, options, reports)


def _refuse_to_write(planned: Planned) -> None:
    if planned.hub is None and (planned.plan.steps or any(run.action == "not-asked" for run in planned.plan.runs)):
        raise HubUnavailable(f"nothing can be released: {planned.plan.not_asked}", "set PRIME_API_KEY, or: --dry-run")
    if planned.hub is not None and not planned.hub.identity.may_write and planned.plan.writes:
        message = f"the key of {planned.hub.identity.slug} can read environments but not write them"
        raise HubUnavailable(message, "create a key with write access to environments, and set PRIME_API_KEY to it")


def _evidence(
    root: Path, planned: Planned, file: Path | None, reports: Path, *, quiet: bool
) -> tuple[dict[str, ValidationEvidence], str]:
    """The evidence for what will be published, or a message if there is none.

    A file decides for the environments in it, even if it is stale or a failure. Others are validated here: an earlier
    release may have failed to publish it. There is no file if nothing changed.
    Raises `NoEvidence`.
    """
    names = [step.desired.name for step in planned.plan.writes if not planned.plan.blocked(step.desired.name)]
    if not names:
        return {}, ""
    known = read_evidence(file) if file is not None and file.exists() else {}
    missing = [name for name in names if name not in known]
    if missing:
        folder = reports / "evidence"
        _validate(root, missing, folder, quiet=quiet)
        known |= read_evidence(folder / "validate.json")
    return known, "the validation did not reach it"


def _validate(root: Path, names: list[str], folder: Path, *, quiet: bool) -> None:
    """Validate again, in a process that has no key: where nothing changed, the cache answers.

    Its progress is shown: it takes minutes.
    """
    kept = {name: value for name, value in os.environ.items() if not SECRET_NAME.search(name)}
    wanted = {name for entry in _secrets(root) for name in entry}
    kept |= {name: os.environ[name] for name in wanted if name in os.environ and name != "PRIME_API_KEY"}
    kept.pop("GITHUB_STEP_SUMMARY", None)
    command = [sys.executable, "-m", "envops", "validate", *names, "--root", str(root), "--reports", str(folder)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "validate.json").unlink(missing_ok=True)
    if quiet:
        command.append("--quiet")
    else:
        noun = "environment" if len(names) == 1 else "environments"
        print(f"validating {len(names)} {noun} before publishing", file=sys.stderr, flush=True)
    subprocess.run(command, env=kept, stdout=sys.stderr, check=False)


def _secrets(root: Path) -> list[tuple[str, ...]]:
    return [entry.secrets for entry in load_registry(root).environments.values()]


def _applied(
    root: Path,
    planned: Planned,
    evidence: Mapping[str, ValidationEvidence],
    why: str,
    stop: threading.Event,
    *,
    quiet: bool,
) -> ReleaseLedger:
    """Carry out the plan and record the result, even if it is interrupted."""
    commit = git(root, "rev-parse", "HEAD").stdout.decode().strip()
    ledger = ReleaseLedger(commit, planned.plan.whose, planned.plan.prime, __version__)
    if planned.prime is None or planned.hub is None:
        ledger.runs = _not_due(planned.plan.runs)
        return ledger
    release = Release(
        _repository(root, planned),
        Workspace(root),
        planned.prime,
        planned.access,
        planned.hub.identity,
        evidence,
        why,
        _uncommitted(root, planned),
        stop,
        (lambda _: None) if quiet else lambda text: print(planned.access.scrubber.text(text), file=sys.stderr),
    )
    done: dict[str, LedgerEntry] = {}
    held = threading.Lock()

    def add(entry: LedgerEntry) -> None:
        with held:
            done[entry.step.desired.name] = entry

    try:
        with terminated_like_interrupted():
            release.apply(planned.plan, add)
            ready = planned.there | {name for name, entry in done.items() if entry.is_ready}
            situation = Situation(root, planned.registry, planned.access, planned.prime, ready, stop)
            ledger.runs = _submitted(situation, planned.plan.runs)
    except (KeyboardInterrupt, Interrupted):
        ledger.interrupted = True
    for step in planned.plan.steps:
        cut = LedgerEntry(
            step, "not-reached", "the release was interrupted", "run it again: it reads the Hub's state first"
        )
        entry = done.get(step.desired.name, cut)
        ledger.entries.append(cut if entry.result == "not-reached" else entry)
    return ledger


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
        named = str(error) if expected else f"envops failed here: {type(error).__name__}: {error}"
        said = situation.access.scrubber.text(named)
        said_next = "nox -s train: it reads the list of runs first"
        return [*others, *(asdict(Submission(name, "unknown", said, said_next)) for name in due)]


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
        said = status.stderr.decode(errors="replace").strip()
        raise DeclarationError([Problem(".git", None, f"git cannot list uncommitted files: {said}")])
    files = [line[3:].strip('"') for line in status.stdout.decode(errors="replace").splitlines()]
    found = {}
    for step in planned.plan.writes:
        folder = f"{ENVIRONMENTS_FOLDER}/{planned.registry.environments[step.desired.name].folder_name}/"
        own = [file for file in files if folder in file or file.endswith(REGISTRY_FILE)]
        if own:
            found[step.desired.name] = ", ".join(own[:3]) + (" …" if len(own) > 3 else "")
    return found


def _reported(ledger: ReleaseLedger, planned: Planned, options: argparse.Namespace, reports: Path) -> int:
    scrubber = planned.access.scrubber
    text = ledger.text(scrubber)
    write_whole(reports / LEDGER, text)
    page = scrubber.text(render_release_markdown(ledger))
    write_whole(reports / "release.md", page)
    shown = scrubber.text(render_release_text(ledger)) if options.format == "text" else page
    print_text(text if options.format == "json" else shown, guard=options.format != "json")
    append_to_summary(page)
    code, why = _outcome(ledger, planned)
    if why:
        print(scrubber.text(f"exit code {code}: {on_one_line(why)}"), file=sys.stderr)
    return code


def _outcome(ledger: ReleaseLedger, planned: Planned) -> tuple[int, str]:
    """The exit code, and why it is not 0; external environments must exist as well."""
    if ledger.interrupted:
        return exit_codes.INTERRUPTED, "the release was interrupted; run it again: it reads the Hub's state first"
    for code, why in ((exit_codes.FAIL, _failures(ledger, planned)), (exit_codes.ERROR, _unknowns(ledger, planned))):
        if why:
            return code, "; ".join(why)
    return exit_codes.PASS, ""


def _failures(ledger: ReleaseLedger, planned: Planned) -> list[str]:
    """What was refused or failed."""
    return [
        *_entries_with(ledger, {"refused", "failed", "wedged"}),
        *_parts_with(ledger, "failed"),
        *_external_with(planned, {"missing", "no-access"}),
    ]


def _unknowns(ledger: ReleaseLedger, planned: Planned) -> list[str]:
    """What has no known result."""
    runs = [run["name"] for run in ledger.runs if run["outcome"] == "unknown"]
    return [
        *_entries_with(ledger, {"unknown", "not-reached"}),
        *(f"the result of submitting run {name} is unknown" for name in runs),
        *_external_with(planned, {"unreadable"}),
    ]


def _entries_with(ledger: ReleaseLedger, results: set[str]) -> Iterator[str]:
    return (f"{entry.step.desired.address} is {entry.result}" for entry in ledger.entries if entry.result in results)


def _parts_with(ledger: ReleaseLedger, outcome: str) -> Iterator[str]:
    for entry in ledger.entries:
        yield from (f"evaluation {each.name} {outcome}" for each in entry.evaluations if each.outcome == outcome)
    yield from (f"run {run['name']} {outcome}: {run['message']}" for run in ledger.runs if run["outcome"] == outcome)


def _external_with(planned: Planned, standings: set[str]) -> Iterator[str]:
    """External environments that a run needs and that cannot be used."""
    for each in planned.plan.external:
        if each.standing in standings:
            said = f"{each.address}, an environment of the Hub, is {each.standing} there"
            yield f"{said}: correct its hub address or its version in registry.yaml"
