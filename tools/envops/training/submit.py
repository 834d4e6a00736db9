"""One submission of one run by the real CLI, and never a second.

The platform has no idempotency key and the CLI retries nothing. So a run is looked for by its
name before it is created, and what came of it is what the list says afterwards, never what the
CLI said. After an answer that leaves it open the list is read again with growing pauses. Where
the run does not appear, nothing is tried again: it may still come to be. A note keeps later
calls from trying before `DOUBT_SECONDS` have passed.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from envops.files.atomic_write import write_whole
from envops.hub.access import HubAccess
from envops.hub.client import HubUnavailable
from envops.hub.prime import Prime
from envops.hub.runs import PlatformRun, RunsUnreadable, list_runs
from envops.system.file_lock import locked
from envops.system.subprocesses import Interrupted, ProgramFailed, run_program
from envops.training.identity import RunIdentity
from envops.training.trainers import compile_run
from envops.training.trainers.trainer import Request

SUBMIT_SECONDS = 900.0
"""The CLI itself gives up after 120 s on the call, and may build the schema's environment before."""
DOUBT_SECONDS = 900.0
"""How long a submission without a verdict may still come to be."""
PAUSES = (1.0, 2.0, 4.0, 8.0)
"""Seconds before each look at the list, after an answer that leaves it open."""
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
    doubt_seconds: float = DOUBT_SECONDS


def submit(request: Request, identity: RunIdentity, platform: Platform) -> Submission:
    """Submit the run unless it is there, and say what the platform then has.

    Raises `Interrupted`; the note of the submission stays then.
    """
    folder = platform.notes / NOTES
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / f"{identity.mark}.json"
    with locked(note.with_name(f"{note.name}.lock")):
        try:
            return _submit(request, identity, platform, note)
        except (RunsUnreadable, HubUnavailable) as error:
            message = str(error).splitlines()[0]
            then = (
                "run it again: nothing is created before the list has been read" if not note.exists() else _when(note)
            )
            return Submission(identity.run, identity.name, "unknown", message, then)


def _submit(request: Request, identity: RunIdentity, platform: Platform, note: Path) -> Submission:
    there = _found(identity, platform)
    if there is not None:
        note.unlink(missing_ok=True)
        return _is_there(identity, there, "already-submitted")
    if _in_doubt(note, platform):
        message = "an earlier submission has no verdict yet, and may still come to be"
        return Submission(identity.run, identity.name, "unknown", message, _when(note))
    write_whole(
        note, json.dumps({"name": identity.name, "at": time.time(), "until": time.time() + platform.doubt_seconds})
    )
    said, succeeded = _create(request, identity, platform)
    for pause in (0.0, *platform.pauses):
        if platform.stop.wait(pause):
            raise Interrupted
        there = _found(identity, platform)
        if there is not None:
            note.unlink(missing_ok=True)
            return _is_there(identity, there, "submitted")
    told = "the CLI reported success, and the run is not in the list" if succeeded else said
    return Submission(identity.run, identity.name, "unknown" if _is_open(said) else "failed", told, _when(note))


def _found(identity: RunIdentity, platform: Platform) -> PlatformRun | None:
    listed = list_runs(platform.prime, platform.access, platform.stop)
    return next((run for run in listed if identity.is_this(run.name)), None)


def _is_there(identity: RunIdentity, run: PlatformRun, outcome: Outcome) -> Submission:
    return Submission(identity.run, run.name, outcome, f"{run.name} is {run.status.lower()}", "", run.id)


def _in_doubt(note: Path, platform: Platform) -> bool:
    try:
        until = float(json.loads(note.read_bytes())["until"])
    except FileNotFoundError:
        return False
    except (ValueError, KeyError, TypeError):
        until = note.stat().st_mtime + platform.doubt_seconds  # cut off while it was written
    return time.time() < until


def _when(note: Path) -> str:
    try:
        until = time.strftime("%H:%M:%S UTC", time.gmtime(float(json.loads(note.read_bytes())["until"])))
    except (OSError, ValueError, KeyError, TypeError):
        until = "a quarter of an hour has passed"
    return f"look with `prime train list`; run it again after {until}: nothing is tried before"


def _is_open(said: str) -> bool:
    """Whether the CLI's words leave it open what became of the call; a refusal of the platform does not."""
    refusals = ("Validation failed", "API key unauthorized", "Payment required", "HTTP 403", "HTTP 404", "HTTP 400")
    return not any(refusal in said for refusal in refusals)


def _create(request: Request, identity: RunIdentity, platform: Platform) -> tuple[str, bool]:
    """Call the CLI once: what it said in a line, and whether it called itself successful."""
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
            said = run_program(
                command, environment=environment, folder=home, seconds=SUBMIT_SECONDS, stop=platform.stop
            )
        except ProgramFailed as error:
            return _telling(access.scrubber.text(error.failure.message)), False
    return _telling(access.scrubber.text(said)), True


def _forwarded(names: tuple[str, ...], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    return {name: environ[name] for name in names if name in environ and name != "PRIME_API_KEY"}


def _telling(said: str) -> str:
    """The line of the CLI's output that matters most."""
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "failed" in line.lower() or "HTTP " in line]
    return (errors or lines or ["it said nothing"])[0][:300]
