"""Evaluations that the platform makes: `prime eval run --hosted`, submitted once and followed to their end.

Its evaluations have names and no other key. So one is looked for by a name that holds a digest of
everything that makes it what it is, before it is created; and what came of the call is what the list says
afterwards, never what the CLI said. Where it does not appear, nothing is tried again for a while: it may
still come to be, and would be paid for twice.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from envops.files.atomic_write import write_whole
from envops.hub.access import HubAccess
from envops.hub.evaluations import EvaluationsUnreadable, PlatformEvaluation, list_evaluations, read_evaluation
from envops.hub.pending_submission import Doubt
from envops.hub.prime import Prime
from envops.release.steps import Desired
from envops.system.file_lock import locked
from envops.system.subprocesses import Interrupted, ProgramFailed, run_program

SUBMIT_SECONDS = 120.0
DOUBT_SECONDS = 900.0
"""How long a submission without a verdict may still come to be."""
PAUSES = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each look at the list, after the call."""
LOOK_SECONDS = 10.0
"""Between two looks at an evaluation that is on its way."""
UNREADABLE = 10
"""So many looks in a row may fail."""
PATIENCE_SECONDS = 900.0
"""How much longer than its own limit an evaluation is followed."""
DIGITS = 12


class NotEvaluated(Exception):
    """There is no evaluation to judge; the message says why and what to do."""


@dataclass(frozen=True)
class HostedRequest:
    """What is to be evaluated."""

    desired: Desired
    model: str
    tasks: int
    rollouts: int
    max_concurrent: int
    sampling: Mapping[str, Any]
    args: Mapping[str, Any]
    seconds: float
    """How long it may take."""

    @property
    def name(self) -> str:
        """What it is called on the platform: equal for equal requests of equal content."""
        about = [self.desired.address, self.desired.content_hash, self.model, self.tasks, self.rollouts]
        text = json.dumps([*about, dict(self.sampling), dict(self.args)], sort_keys=True, default=str)
        mark = hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
        return f"{self.desired.name} {self.desired.version} by {self.model}, {self.tasks}x{self.rollouts} ({mark})"

    @property
    def minutes(self) -> int:
        return max(1, ceil(self.seconds / 60))


@dataclass(frozen=True)
class HostedSide:
    """The platform, and where notes of open submissions are kept."""

    prime: Prime
    access: HubAccess
    notes: Path
    stop: threading.Event
    pauses: Sequence[float] = PAUSES
    doubt_seconds: float = DOUBT_SECONDS
    look_seconds: float = LOOK_SECONDS

    def note(self, request: HostedRequest, ending: str) -> Path:
        """Where something about a request is kept between two commands."""
        key = hashlib.sha256(request.name.encode()).hexdigest()[:DIGITS]
        return self.notes / f"hosted-{key}.{ending}"

    def tries(self, request: HostedRequest) -> dict[int, PlatformEvaluation]:
        """Every try of this request that is listed, by its number. Raises `EvaluationsUnreadable`."""
        found = list_evaluations(self.prime, self.access, request.desired.name, self.stop)
        numbered = ((number_of_try(request, each.name), each) for each in reversed(found))
        return {number: each for number, each in numbered if number}


def name_of_try(request: HostedRequest, number: int) -> str:
    """The name of the first, second … try."""
    return request.name if number == 1 else f"{request.name}, try {number}"


def number_of_try(request: HostedRequest, name: str) -> int:
    """Which try a name is of; 0 where it is of another request."""
    rest = name.removeprefix(f"{request.name}, try ")
    return 1 if name == request.name else int(rest) if rest != name and rest.isdecimal() else 0


def submitted(request: HostedRequest, side: HostedSide, *, again: bool = False) -> tuple[PlatformEvaluation, bool]:
    """The evaluation of this request, and whether it was created now.

    One that is on its way or complete is taken as it is; after one that failed, or with `again` after a
    complete one that is not still to be imported here, another is created.
    Raises `NotEvaluated`, `HubUnavailable` and `Interrupted`.
    """
    side.notes.mkdir(parents=True, exist_ok=True)
    doubt = Doubt(side.note(request, "json"), side.doubt_seconds)
    with locked(doubt.note.with_name(f"{doubt.note.name}.lock")):
        try:
            return _submitted(request, side, doubt, again=again)
        except EvaluationsUnreadable as error:
            then = f" before {doubt.hour}" if doubt.holds else ""
            raise NotEvaluated(f"{error}\nRun it again: nothing is created before the list was read{then}.") from None


def _submitted(
    request: HostedRequest, side: HostedSide, doubt: Doubt, *, again: bool
) -> tuple[PlatformEvaluation, bool]:
    tries = side.tries(request)
    number = max(tries, default=0)
    latest = tries.get(number)
    wanted = not again or _awaited(request, side) == number
    if latest is not None and (not latest.has_ended or (latest.status == "COMPLETED" and wanted)):
        doubt.end()
        return latest, False
    if doubt.holds:
        raise NotEvaluated(
            "an earlier submission has no verdict yet, and may still come to be\n"
            f"Look with `prime eval list`; run it again after {doubt.hour}: nothing is tried before."
        )
    doubt.begin(name_of_try(request, number + 1))
    write_whole(side.note(request, "awaited"), f"{number + 1}\n")
    said = _create(request, name_of_try(request, number + 1), side)
    for pause in side.pauses:
        if side.stop.wait(pause):
            raise Interrupted
        found = side.tries(request).get(number + 1)
        if found is not None:
            doubt.end()
            return found, True
    if _is_refusal(said):
        doubt.end()
        raise NotEvaluated(f"the platform did not take it: {said}")
    raise NotEvaluated(
        f"what became of the submission is not known: {said}\n"
        f"Look with `prime eval list`; run it again after {doubt.hour}: nothing is tried before."
    )


def imported(request: HostedRequest, side: HostedSide) -> None:
    """Its samples lie here: with `again`, the next call creates another try."""
    side.note(request, "awaited").unlink(missing_ok=True)


def _awaited(request: HostedRequest, side: HostedSide) -> int:
    """The try that was created here and never imported; 0 where there is none."""
    with suppress(OSError, ValueError):
        return int(side.note(request, "awaited").read_text(encoding="utf-8"))
    return 0


def _create(request: HostedRequest, name: str, side: HostedSide) -> str:
    """Call the CLI once; what it said that matters."""
    command: list[str | Path] = [side.prime.program, "--plain", "eval", "run", request.desired.address, "--hosted"]
    command += ["-m", request.model, "-n", str(request.tasks), "-r", str(request.rollouts)]
    command += ["-c", str(request.max_concurrent), "-S", json.dumps(dict(request.sampling))]
    command += ["--eval-name", name, "--timeout-minutes", str(request.minutes)]
    if request.args:
        command += ["-a", json.dumps(dict(request.args))]
    with TemporaryDirectory(prefix="envops-hosted-") as home:
        environment = side.access.environment(Path(home))
        try:
            said = run_program(
                command, environment=environment, folder=Path(home), seconds=SUBMIT_SECONDS, stop=side.stop
            )
        except ProgramFailed as error:
            said = error.failure.message
    lines = [line.strip() for line in side.access.scrubber.text(said).splitlines() if line.strip()]
    telling = [line for line in lines if "rror" in line or "failed" in line]
    return (telling or lines or ["the CLI said nothing"])[0][:400]


def _is_refusal(said: str) -> bool:
    """Whether the CLI's words leave no doubt that nothing was created."""
    refusals = ("Validation failed", "API key unauthorized", "Payment required", "HTTP 400", "HTTP 403", "HTTP 404")
    return any(words in said for words in (*refusals, "hosted evaluations require", "HTTP 409"))


def followed(
    evaluation: PlatformEvaluation, request: HostedRequest, side: HostedSide, tell: Callable[[str], None]
) -> PlatformEvaluation:
    """The evaluation when it is complete; `tell` hears of every change on the way.

    Raises `NotEvaluated` where it ends otherwise or cannot be followed, `HubUnavailable` and `Interrupted`.
    """
    until = time.monotonic() + 60 * request.minutes + PATIENCE_SECONDS
    told, unreadable = "", 0
    resumes = "the same command goes on with it, and pays for nothing twice"
    while not evaluation.has_ended:
        line = f"{evaluation.name}: {evaluation.status.lower()}, {evaluation.samples} samples so far"
        if line != told:
            tell(line)
            told = line
        if side.stop.wait(side.look_seconds):
            raise Interrupted
        if time.monotonic() > until:
            raise NotEvaluated(f"{evaluation.id} is still {evaluation.status} after its time was over; {resumes}")
        try:
            evaluation, unreadable = read_evaluation(side.prime, side.access, evaluation.id, side.stop), 0
        except EvaluationsUnreadable as error:
            unreadable += 1
            if unreadable >= UNREADABLE:
                raise NotEvaluated(f"{error}; {resumes}") from None
    if evaluation.status != "COMPLETED":
        why = f": {evaluation.error}" if evaluation.error else ""
        message = f"{evaluation.name} ended as {evaluation.status}{why}"
        raise NotEvaluated(
            f"{message}\nLook with `prime eval logs {evaluation.id}`; the same command makes another try."
        )
    return evaluation
