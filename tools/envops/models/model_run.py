"""What the commands that let a model speak have in common: the endpoint, its price, and how far it is."""

from __future__ import annotations

import argparse
import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from envops import exit_codes
from envops.facts.results import EvaluationRow, ResultsWriter
from envops.facts.spending import Spending
from envops.models.model_evaluation import MOST_TASKS, Asked, NoKey, Opened, key_of
from envops.models.provider import EndpointRefuses
from envops.models.relay import Relay
from envops.models.spending import Estimate, estimate
from envops.repository.endpoints import ENDPOINTS_FILE, Endpoint, find_endpoint
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.repository.repository import Repository
from envops.system.subprocesses import Interrupted, ProgramFailed
from envops.text.visible_text import fitting, on_one_line
from envops.validation.job import StageFailed

DEFAULT_CEILING = 1.0
"""Dollars that a run may cost where nobody says anything else."""
LONGEST_SECONDS = 6 * 3600.0
SECONDS_PER_CALL = 60.0


class Refused(Exception):
    """The run is not begun or not gone on with; `code` is the exit code."""

    def __init__(self, message: str, code: int = exit_codes.USAGE) -> None:
        self.code = code
        super().__init__(message)


def say(text: str, *, end: str = "\n") -> None:
    """Tell the user on standard error, where no answer is expected to be read from."""
    print(fitting(text, sys.stderr.encoding), end=end, file=sys.stderr, flush=True)


def chosen(options: argparse.Namespace) -> tuple[Repository, tuple[str, ...]]:
    """The environments that were named; a model is never let loose on all of them by accident."""
    root = options.root.absolute()
    if not options.names:
        raise Refused("name the environments that the model is to be evaluated on")
    repository = Repository.load(root, options.names)
    return repository, repository.select(options.names)


def ceiling_of(options: argparse.Namespace, endpoint: Endpoint) -> float | None:
    """What the run may cost. Raises `Refused` where nobody can know and nobody said that it does not matter."""
    wanted = options.max_cost
    if wanted == "none":
        return None
    if not endpoint.has_prices:
        raise Refused(
            f"nobody can say what {endpoint.name} costs: {ENDPOINTS_FILE}:{endpoint.line} has no input_price and "
            "output_price (dollars for a million tokens).\nAdd them, or say --max-cost none to spend without a ceiling."
        )
    return DEFAULT_CEILING if wanted is None else float(wanted)


@contextmanager
def relay_to(root: Path, options: argparse.Namespace) -> Iterator[Relay]:
    """The relay to the endpoint that was named, after it answered a cheap question.

    Raises `Refused` with what is wrong and what the endpoint said, and `DeclarationError`.
    """
    endpoint = find_endpoint(root, options.endpoint)
    with relay_for(endpoint, ceiling_of(options, endpoint)) as relay:
        yield relay


@contextmanager
def relay_for(endpoint: Endpoint, ceiling: float | None, seed: int | None = None) -> Iterator[Relay]:
    """The relay to an endpoint, after it answered a cheap question. Raises `Refused`."""
    try:
        key = key_of(endpoint)
    except NoKey as error:
        raise Refused(f"{error}\nSet it for this command alone, and never write it into a file.") from None
    with Relay(endpoint, key, ceiling, seed=seed) as relay:
        try:
            relay.check()
        except EndpointRefuses as error:
            raise refused_by(error) from None
        yield relay


@contextmanager
def breaking_off(name: str, stop: threading.Event) -> Iterator[None]:
    """An evaluation inside: what breaks it off as a whole becomes `Refused`, with the code of whose fault it is."""
    try:
        yield
    except KeyboardInterrupt:
        stop.set()
        raise
    except Interrupted:
        raise KeyboardInterrupt from None
    except (StageFailed, ProgramFailed) as error:
        own = error.failure.kind in ("raised", "missing-secret", "network")
        message = f"{name} could not be evaluated: {error.failure.type}: {error.failure.message}"
        raise Refused(message, exit_codes.FAIL if own else exit_codes.ERROR) from None


def refused_by(error: EndpointRefuses) -> Refused:
    """Unreachable is nobody's fault; a wrong key or model is a declaration's."""
    fixes = {
        "unreachable": "Is it up, and is this machine allowed to reach it?",
        "unauthorised": f"Check the key in the variable that {ENDPOINTS_FILE} names.",
        "unknown-model": f"Check the key model in {ENDPOINTS_FILE}.",
        "refused": "The endpoint's own message says why.",
    }
    code = exit_codes.ERROR if error.kind in ("unreachable", "refused") else exit_codes.USAGE
    return Refused(f"{error.kind.replace('-', ' ')}: {on_one_line(str(error))}\n{fixes[error.kind]}", code)


def asked_of(
    options: argparse.Namespace, endpoint: Endpoint | None, tasks: int, rollouts: int, most: int = MOST_TASKS
) -> Asked:
    """How much to evaluate: as the flags say, else so many tasks and rollouts."""
    tasks, rollouts = options.tasks or tasks, options.rollouts or rollouts
    if tasks > most:
        more = "envops distribution hosted NAME --endpoint NAME"
        raise Refused(f"-n {tasks}: at most {most:,} tasks here; for more: {more}")
    concurrent = endpoint.concurrency if endpoint else 32
    seconds = min(LONGEST_SECONDS, max(600.0, tasks * rollouts / concurrent * SECONDS_PER_CALL))
    return Asked(tasks, rollouts, concurrent, seconds, getattr(options, "harness", None))


def approve(entry: EnvironmentEntry, opened: Opened, relay: Relay, asked: Asked) -> Estimate:
    """Say what is coming; raise `Refused` where it could cost more than is left below the ceiling."""
    return approve_bound(entry, opened, asked, relay.endpoint, relay.ceiling, relay.spending.cost)


def approve_bound(
    entry: EnvironmentEntry, opened: Opened, asked: Asked, endpoint: Endpoint, ceiling: float | None, spent: float = 0.0
) -> Estimate:
    """The same for an endpoint that no relay of ours speaks to."""
    prompts = [task.prompt for task in opened.tasks]
    bound = estimate(endpoint, prompts, asked.rollouts, conversational=opened.description.conversational)
    say(f"{entry.name}: {described(bound, endpoint)}")
    if ceiling is not None and bound.cost is not None and spent + bound.cost > ceiling:
        before = f", after ${spent:.4f} that is spent already" if spent else ""
        raise Refused(
            f"refused: {described(bound, endpoint)}{before}; --max-cost is ${ceiling:g}.\n"
            "Ask for fewer tasks (-n) or rollouts (-r), lower max_tokens of the endpoint, or raise --max-cost."
        )
    return bound


def described(bound: Estimate, endpoint: Endpoint) -> str:
    """An estimate in a sentence."""
    rollouts = f"{bound.rollouts:,} rollouts (tasks: {bound.tasks}) by {endpoint.model} at {endpoint.name}"
    calls = f"{bound.calls:,} calls, taken at {bound.calls // max(1, bound.rollouts)} a conversation; "
    tokens = f"at most {bound.tokens.prompt:,} tokens sent and {bound.tokens.completion:,} answered"
    cost = "at a price that nobody has said" if bound.cost is None else f"at most ${bound.cost:.4f}"
    return f"{rollouts}: {calls if bound.calls_guessed else ''}{tokens}, {cost}"


@dataclass
class Meter:
    """Shows how far an evaluation is, and keeps every row on disk as it comes."""

    name: str
    writer: ResultsWriter | None
    relay: Relay | None = None
    quiet: bool = False
    rows: int = 0
    errors: int = 0
    total_reward: float = 0.0
    scored: int = 0
    started: float = field(default_factory=time.monotonic)
    shown: float = 0.0

    def seen(self, row: EvaluationRow, total: int) -> None:
        """One more rollout is there."""
        if self.writer is not None:
            self.writer.append(row)
        self.rows += 1
        self.errors += row.error is not None
        if row.scored and row.reward is not None:
            self.scored += 1
            self.total_reward += row.reward
        now = time.monotonic()
        if not self.quiet and sys.stderr.isatty() and (now - self.shown > 0.2 or self.rows == total):
            self.shown = now
            say(f"\r\x1b[K{self.line(total)}", end="\n" if self.rows == total else "")

    def line(self, total: int) -> str:
        """Where it stands."""
        seconds = max(1e-6, time.monotonic() - self.started)
        speed = self.rows / seconds
        mean = f"{self.total_reward / self.scored:.3f}" if self.scored else "none yet"
        left = (total - self.rows) / speed if speed else math.inf
        cost = f", ${self.relay.spending.cost:.4f}" if self.relay else ""
        return (
            f"{self.name}: {self.rows}/{total}, mean reward {mean}, {self.errors} errors, "
            f"{speed:.1f} rollouts/s, {left:.0f} s left{cost}"
        )


def spent(spending: Spending, endpoint: Endpoint) -> str:
    """What a run came to, in a sentence."""
    cost = f"${spending.cost:.4f}" if endpoint.has_prices else "a price that nobody has said"
    parts = [
        f"{spending.answered:,} of {spending.calls:,} calls answered, {spending.retries:,} tried again",
        f"{spending.tokens.prompt:,} tokens sent and {spending.tokens.completion:,} answered, {cost}",
    ]
    if spending.unmeasured:
        parts.append(f"{spending.unmeasured:,} without a word on what they used, counted at their most")
    if spending.failed:
        parts.append(f"{spending.failed:,} given up")
    if spending.refused:
        parts.append(f"{spending.refused:,} not made")
    return "; ".join(parts)


def default_tasks(package: Package, entry: EnvironmentEntry) -> tuple[int, int]:
    """Tasks and rollouts that the package itself wants an evaluation to have."""
    wanted = [package.eval_settings.get(key) for key in ("num_examples", "rollouts_per_example")]
    tasks, rollouts = (number if isinstance(number, int) and number > 0 else None for number in wanted)
    return min(tasks or entry.gates.smoke.tasks, MOST_TASKS), rollouts or entry.gates.smoke.rollouts
