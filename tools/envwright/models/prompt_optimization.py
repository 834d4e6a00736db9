"""GEPA on one environment: verifiers' own command, in the environment's own virtual environment.

The command runs a system prompt on training tasks, lets a model reflect on the results, and keeps
prompts that do better on validation tasks. It reaches the model through the host's relay.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envwright.facts.observed import Failure, Task, adapter
from envwright.facts.spending import Tokens
from envwright.models.confined_command import confined_command, flags, settings_of_v1
from envwright.models.model_evaluation import sampling_of
from envwright.models.relay import Relay
from envwright.models.spending import CALLS_OF_CONVERSATION, CostEstimate, bound_of_prompt
from envwright.repository.package import Package
from envwright.repository.registry import EnvironmentEntry
from envwright.repository.workspace import Workspace
from envwright.system.subprocesses import ProgramFailed, run_program
from envwright.validation.starting import WORKER_FOLDER

MINIBATCH = 3
"""Tasks of one reflection: GEPA's own default in both generations."""
TEMPLATE_TOKENS = 2_000
"""The most tokens of GEPA's prompt for a reflection, without its rollouts."""
MODULE = "envwright_gepa"


@dataclass(frozen=True)
class SearchBudget:
    """The size of a search."""

    calls: int
    """Rollouts at which GEPA stops after the current round."""
    train: int
    validation: int
    seconds: float
    seed: int = 0
    initial_prompt: str | None = None
    """The initial prompt, for a v1 environment whose tasks have no system prompt."""

    @property
    def most_calls(self) -> int:
        """The most rollouts: a round is two minibatches and all validation tasks."""
        return self.calls + 2 * MINIBATCH + self.validation

    @property
    def reflections(self) -> int:
        """Each follows a minibatch of rollouts."""
        return self.most_calls // MINIBATCH + 1


@dataclass(frozen=True)
class Optimized:
    """The result of GEPA. Scores are means of rewards on the validation tasks."""

    candidates: tuple[str, ...]
    """System prompts that were scored on them, starting with the initial one."""
    scores: tuple[float, ...]
    subscores: tuple[Mapping[str, float], ...]
    """Validation task → score, for each candidate."""
    best: int
    calls: int | None
    """The number of rollouts; `None` if GEPA does not report it."""


@dataclass
class SearchProgress:
    """Reports each batch of rollouts; the process of GEPA writes their number to a file."""

    path: Path
    seen: Callable[[int], None]
    rollouts: int = 0

    def look(self) -> None:
        """Report new rollouts."""
        try:
            now = int(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # nothing yet, or it is being written
            return
        if now > self.rollouts:
            self.rollouts = now
            self.seen(now)


class NoGepa(Exception):
    """This release of verifiers has no GEPA, or the package `gepa` is not in the environment's lock."""


def estimate_of_search(
    relay: Relay, tasks: tuple[Task, ...], budget: SearchBudget, *, conversational: bool
) -> CostEstimate:
    """The upper bound of a search.

    Every prompt is taken to be the longest one with a system prompt as long as a reply may be,
    and every reflection to read a minibatch of the longest conversations.
    """
    endpoint, turns = relay.endpoint, CALLS_OF_CONVERSATION if conversational else 1
    limit = endpoint.max_tokens
    prompt = max((bound_of_prompt(task.prompt) for task in tasks), default=0) + limit
    rollout = Tokens(prompt * turns + limit * turns * (turns - 1) // 2, limit * turns)
    answer = max((len(str(task.answer or "").encode()) for task in tasks), default=0)
    reflection = Tokens(MINIBATCH * (prompt + limit * turns + answer) + limit + TEMPLATE_TOKENS, limit)
    calls, reflections = budget.most_calls, budget.reflections
    tokens = Tokens(
        calls * rollout.prompt + reflections * reflection.prompt,
        calls * rollout.completion + reflections * reflection.completion,
    )
    cost = endpoint.cost(tokens.prompt, tokens.completion) if endpoint.has_prices else None
    return CostEstimate(
        budget.train + budget.validation, calls, calls * turns + reflections, tokens, cost, conversational
    )


def optimize_prompt(
    entry: EnvironmentEntry,
    package: Package,
    workspace: Workspace,
    relay: Relay,
    budget: SearchBudget,
    stop: threading.Event,
    *,
    seen: Callable[[int], None],
    judge: str | None = None,
    allow_network: bool = False,
) -> Optimized:
    """Search for a better system prompt; `seen` gets the number of rollouts after each batch of them.

    Python's connections beyond this machine are refused as in a worker, unless the network is allowed. Requests to a
    judge go to the address `judge`. Raises `NoGepa` if the environment's lock has none, `ProgramFailed` when the
    command fails, and `Interrupted` when `stop` is set.
    """
    with confined_command(entry, package, workspace, stop, judge=judge, allow_network=allow_network) as confined:
        scratch = confined.scratch
        result, progress = scratch / "result.json", SearchProgress(scratch / "progress", seen)
        shutil.copy(WORKER_FOLDER / "adapters" / "gepa.py", confined.modules / f"{MODULE}.py")
        options = _options_v0 if package.generation == "v0" else _options_v1
        arguments = [package.module, *options(entry, relay, budget, scratch / "out")]
        asked = {"generation": package.generation, "arguments": arguments}
        run_program(
            [confined.venv.python, "-m", MODULE],
            environment=confined.variables,
            folder=scratch,
            seconds=budget.seconds,
            stop=stop,
            sandbox=confined.sandbox,
            sends=json.dumps(asked | {"result": str(result), "progress": str(progress.path)}),
            look=progress.look,
        )
        return _optimized(result)


def _optimized(path: Path) -> Optimized:
    try:
        raw = json.loads(path.read_bytes())
        if isinstance(raw, dict) and "missing" in raw:
            raise NoGepa(str(raw["missing"]))
        found = adapter(Optimized).validate_python(raw, strict=False)
    except (OSError, ValueError) as error:
        message = f"GEPA ended without a result: {error}"
        raise ProgramFailed(Failure("infrastructure", "NoResult", message)) from None
    assert isinstance(found, Optimized)
    return found


def _options_v0(entry: EnvironmentEntry, relay: Relay, budget: SearchBudget, out: Path) -> list[str]:
    where = ["-m", relay.endpoint.model, "-b", relay.base_url, "-k", "ENVWRIGHT_ENDPOINT_KEY", "-o", str(out)]
    size = ["-B", budget.calls, "-n", budget.train, "-N", budget.validation, "--minibatch-size", MINIBATCH]
    how = ["-c", relay.endpoint.concurrency, "--seed", budget.seed, "-S", json.dumps(sampling_of(relay.endpoint))]
    return [*where, "-a", json.dumps(dict(entry.args)), *map(str, [*size, *how])]


def _options_v1(entry: EnvironmentEntry, relay: Relay, budget: SearchBudget, out: Path) -> list[str]:
    settings: dict[str, Any] = {
        "model": relay.endpoint.model,
        "max-total-rollouts": budget.calls,
        "num-train": budget.train,
        "num-val": budget.validation,
        "reflection-minibatch-size": MINIBATCH,
        "max-concurrent": relay.endpoint.concurrency,
        "seed": budget.seed,
        "output-dir": out,
        "run.name": "gepa",
        **({} if budget.initial_prompt is None else {"initial-prompt": budget.initial_prompt}),
    }
    return flags(settings_of_v1(entry, relay) | settings)
