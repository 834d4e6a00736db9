"""What a release may publish: the evidence and the wheels, handed over by other jobs or made here without the key."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from envwright.builds.wheel import built_wheel
from envwright.declarations.granted_variables import granted_variables
from envwright.declarations.package import Package
from envwright.declarations.registry import load_registry
from envwright.exit_codes import CommandError
from envwright.packages.changes import changed_environments
from envwright.packages.repository import Repository
from envwright.release.evidence import HandedOver, ValidationEvidence, read_evidence
from envwright.release.ledger import LEDGER, LedgerEntry, earlier_entries, split_earlier
from envwright.release.plan import Planned
from envwright.reports.result import REPORT
from envwright.system.workspace import Workspace
from envwright.text.plain_data import counted
from envwright.text.scrubbing import without_secrets


@dataclass(frozen=True)
class ReleaseSettings:
    """The flags of `envwright release` that decide what is published, and on which evidence."""

    evidence: Path | None = None
    """Evidence of an earlier validation; what is missing from it is validated here."""
    evidence_only: Path | None = None
    """A folder with evidence and wheels: nothing is validated, built or loaded here, and no run is submitted."""
    since: str = ""
    """The commit since which published packages are verified, with `evidence_only`."""
    quiet: bool = False


@dataclass(frozen=True)
class Proven:
    """What may be published, and what an earlier release published without verifying it."""

    evidence: Mapping[str, ValidationEvidence]
    no_evidence: str
    """The message for an environment without evidence."""
    wheel_of: Callable[[Package, ValidationEvidence], Path]
    """The wheel that was tested. Raises `NoWheel` and `ProgramFailed`."""
    earlier: Mapping[str, LedgerEntry]
    """What earlier releases sent of the same content, by name: what they did not verify is verified now."""
    unreached: list[LedgerEntry]
    """What they sent of environments that this release does not reach."""


def handed_over(root: Path, planned: Planned, settings: ReleaseSettings, reports: Path) -> Proven:
    """The evidence and the wheels that jobs without a key handed over.

    An environment in the evidence that changed since the last release and is published already was published by a
    release that did not end, so it is verified. Raises `CommandError` and `DeclarationError`.
    """
    folder = settings.evidence_only
    if folder is None or not folder.is_dir():
        raise CommandError(
            f"{folder} is not a folder: --evidence-only takes the folder with validate.json and the wheels"
        )
    file = folder / REPORT
    known = read_evidence(file) if file.exists() else {}
    handed = HandedOver(folder)
    earlier, kept = split_earlier(earlier_entries(reports / LEDGER), planned.plan)
    changed = changed_environments(root, settings.since).names if settings.since else known.keys()
    again = {}
    for step in planned.plan.steps:
        name = step.desired.name
        if step.action != "unchanged" or name not in changed & known.keys():
            continue
        if not known[name].refusal(Repository.load(root, [name]).packages[name]):
            again[name] = LedgerEntry(step, "unknown", "", evidence=known[name], wheel=known[name].wheel)
    return Proven(
        known,
        "the evidence does not name it: run the release for all environments (in CI: the workflow, by hand)",
        lambda _, proof: handed.wheel(proof),
        again | earlier,
        kept,
    )


def proven_here(
    root: Path, planned: Planned, settings: ReleaseSettings, reports: Path, stop: threading.Event
) -> Proven:
    """The evidence for what will be published, and the wheels from the cache of this checkout.

    A file decides for the environments in it, even if it is stale or a failure. Others are validated here: an earlier
    release may have failed to publish it. There is no file if nothing changed.
    Raises `CommandError`.
    """
    earlier, kept = split_earlier(earlier_entries(reports / LEDGER), planned.plan)
    names = [step.desired.name for step in planned.plan.writes]
    file = settings.evidence
    known = read_evidence(file) if names and file is not None and file.exists() else {}
    missing = [name for name in names if name not in known]
    if missing:
        folder = reports / "evidence"
        _validate(root, missing, folder, quiet=settings.quiet)
        known |= read_evidence(folder / REPORT)
    workspace = Workspace(root)

    def wheel_of(package: Package, _: ValidationEvidence) -> Path:
        made = built_wheel(package, workspace, stop)
        return made.overlay.parent / made.wheel.filename

    return Proven(known, "the validation did not reach it", wheel_of, earlier, kept)


def _validate(root: Path, names: list[str], folder: Path, *, quiet: bool) -> None:
    """Validate, in a process that has no key and uses no remembered facts, which an environment's code may have left.

    Its progress is shown: it takes minutes.
    """
    wanted = {name for entry in load_registry(root).environments.values() for name in entry.secrets}
    granted = granted_variables(wanted, root)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / REPORT).unlink(missing_ok=True)
    if not quiet:
        print(f"validating {counted(len(names), 'environment')} before publishing", file=sys.stderr, flush=True)
    run_without_key(["validate", "--no-cache", *names], root, folder, granted, quiet=quiet)


def run_without_key(command: list[str], root: Path, reports: Path, granted: Mapping[str, str], *, quiet: bool) -> None:
    """Run one of the tool's commands, without secrets in its variables except the granted ones."""
    kept = without_secrets(os.environ)
    kept.pop("GITHUB_STEP_SUMMARY", None)
    arguments = [*command, "--root", str(root), "--reports", str(reports), *(["--quiet"] if quiet else [])]
    subprocess.run(
        [sys.executable, "-P", "-m", "envwright", *arguments], env=kept | {**granted}, stdout=sys.stderr, check=False
    )
