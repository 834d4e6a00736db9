"""One submission of one run by the real CLI, and never a second.

`hub/pending_submission.py` says how that is kept.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from envops.hub.access import HubAccess, HubUnavailable, Prime
from envops.hub.pending_submission import PAUSES, PENDING_SECONDS, PendingSubmission, is_refusal, telling_line
from envops.hub.runs import PlatformRun, RunsUnreadable, list_runs
from envops.system.subprocesses import ProgramFailed, run_program
from envops.training.identity import RunIdentity
from envops.training.trainers import compile_run
from envops.training.trainers.trainer import Request

SUBMIT_SECONDS = 900.0
"""The CLI itself gives up after 120 s on the call, and may build the schema's environment before."""
NOTES = "runs"

Outcome = Literal["submitted", "already-submitted", "failed", "unknown"]


@dataclass(frozen=True)
class Submission:
    """What came of one run."""

    run: str
    name: str
    outcome: Outcome
    message: str
    next: str = ""
    id: str = ""


@dataclass(frozen=True)
class Platform:
    """Where runs are submitted, and the folder where notes of open submissions are kept."""

    prime: Prime
    access: HubAccess
    notes: Path
    stop: threading.Event
    pauses: tuple[float, ...] = PAUSES
    pending_seconds: float = PENDING_SECONDS


def submit(request: Request, identity: RunIdentity, platform: Platform) -> Submission:
    """Submit the run unless it is there, and return what the platform then has.

    Raises `Interrupted`; the note of the submission stays then.
    """
    pending = PendingSubmission(platform.notes / NOTES / f"{identity.mark}.json", platform.pending_seconds)
    with pending.lock:
        try:
            return _submit(request, identity, platform, pending)
        except (RunsUnreadable, HubUnavailable) as error:
            message = str(error).splitlines()[0]
            again = "run it again: nothing is created before the list has been read"
            then = _when(pending) if pending.holds else again
            return Submission(identity.run, identity.name, "unknown", message, then)


def _submit(request: Request, identity: RunIdentity, platform: Platform, pending: PendingSubmission) -> Submission:
    there = _found(identity, platform)
    if there is not None:
        pending.end()
        return _is_there(identity, there, "already-submitted")
    if pending.holds:
        message = "an earlier submission has no result yet, and may still come to be"
        return Submission(identity.run, identity.name, "unknown", message, _when(pending))
    there, printed = pending.submit(
        identity.name,
        lambda: _create(request, identity, platform),
        lambda: _found(identity, platform),
        platform.stop,
        platform.pauses,
    )
    if there is not None:
        return _is_there(identity, there, "submitted")
    if is_refusal(printed):
        return Submission(identity.run, identity.name, "failed", printed, "fix what it says, then run it again")
    return Submission(identity.run, identity.name, "unknown", printed, _when(pending))


def _found(identity: RunIdentity, platform: Platform) -> PlatformRun | None:
    listed = list_runs(platform.prime, platform.access, platform.stop)
    return next((run for run in listed if identity.is_this(run.name)), None)


def _is_there(identity: RunIdentity, run: PlatformRun, outcome: Outcome) -> Submission:
    return Submission(identity.run, run.name, outcome, f"{run.name} is {run.status.lower()}", "", run.id)


def _when(pending: PendingSubmission) -> str:
    return f"look with `prime train list`; run it again after {pending.hour}: nothing is submitted before"


def _create(request: Request, identity: RunIdentity, platform: Platform) -> str:
    """Call the CLI once; the line of its output that matters."""
    compiled = compile_run(replace(request, name=identity.name))
    access = platform.access
    with TemporaryDirectory(prefix="envops-train-") as scratch:
        home = Path(scratch) / "home"
        home.mkdir()
        config = Path(scratch) / f"{identity.run}.toml"
        config.write_text(next(iter(compiled.files.values())), encoding="utf-8")
        command = [str(platform.prime.program), "train", str(config), *compiled.command[3:]]
        environment = access.environment(home) | _forwarded(compiled.secrets)
        try:
            run_program(command, environment=environment, folder=home, seconds=SUBMIT_SECONDS, stop=platform.stop)
        except ProgramFailed as error:
            return telling_line(access.scrubber.text(error.failure.message))
    return "the CLI reported success, and the run is not in the list"


def _forwarded(names: tuple[str, ...], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    return {name: environ[name] for name in names if name in environ and name != "PRIME_API_KEY"}
