"""Rules of training runs: what prime-rl's schema refuses of what overrides can say.

The hosted service validates only on its cluster, after the release; these say it here. All of
it was tried on 559b447 (2026-08-21) with prime-rl's own schema package.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envops.rules.engine import Found, rule
from envops.rules.runs.subject import RunSubject
from envops.rules.runs.trainer_settings import PRIME_RL, at, sources

WARMUP, DECAY = 10, 10
"""prime-rl's own defaults of a scheduler, in steps."""
LAUNCHERS_VARIABLES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "PRL_RUN_ID",
        "PRL_RUN_NAME",
        "WANDB_RUN_ID",
        "WANDB_SHARED_MODE",
        "WANDB_SHARED_LABEL",
        "WANDB_SHARED_PRIMARY",
        "WANDB_SHARED_FINISHER",
    }
)


@rule("RUN014", gate="run")
def prime_rl_refuses_a_combination(run: RunSubject) -> Iterator[Found]:
    """prime-rl refuses a combination of settings.

    What: A scheduler fits the steps, bounds of concurrency hold a group and each other, there is one kind of batch, an
        evaluation has a source, both halves have the same steps, the launcher's own variables are left alone, and
        W&B is not offline. Source: prime-rl configs at 559b447.
    Why: The run ends when its configuration is read: on the cluster, with hosted training.
    Fix: Change the override that the message names.
    """
    if run.spec.backend not in PRIME_RL:
        return
    for path, message in _refused(run.native, run.knobs.max_steps, max(run.knobs.groups.values(), default=1)):
        yield run.found(f"overrides.{path}", message, path=path)


def _refused(native: Mapping[str, Any], steps: int | None, group: int) -> Iterator[tuple[str, str]]:
    yield from _scheduler(at(native, "trainer.scheduler"), steps)
    yield from _concurrency(at(native, "orchestrator.concurrency"), group)
    orchestrator = at(native, "orchestrator")
    if isinstance(orchestrator, Mapping) and {"batch_size", "token_batch_size"} <= set(orchestrator):
        yield "orchestrator.token_batch_size", "batch_size and token_batch_size are both set"
    if at(native, "orchestrator.eval") is not None and not sources(native, "eval"):
        yield "orchestrator.eval", "the evaluation has no source"
    for part in ("trainer", "orchestrator"):
        own = at(native, f"{part}.max_steps")
        if own is not None and own != native.get("max_steps"):
            yield f"{part}.max_steps", f"{part}.max_steps is {own}, max_steps {native.get('max_steps')}"
    if at(native, "monitors.wandb.offline") is True:
        yield "monitors.wandb.offline", "W&B cannot be offline: its shared mode is always on"
    for path in ("env_vars", "trainer.env_vars", "orchestrator.env_vars", "inference.env_vars"):
        given = at(native, path)
        taken = sorted(LAUNCHERS_VARIABLES & set(given)) if isinstance(given, Mapping) else []
        if taken:
            yield path, f"{', '.join(taken)} belong to the launcher"


def _scheduler(scheduler: Any, steps: int | None) -> Iterator[tuple[str, str]]:
    if not isinstance(scheduler, Mapping) or steps is None:
        return
    warmup = _whole(scheduler.get("warmup_steps"), WARMUP)
    if scheduler.get("type") == "cosine" and steps <= warmup:
        yield "trainer.scheduler", f"a warm-up of {warmup} steps leaves nothing of {steps} to decay over"
    if scheduler.get("type") == "linear":
        decay = _whole(scheduler.get("decay_steps"), DECAY)
        if warmup + decay > steps:
            yield "trainer.scheduler", f"a warm-up of {warmup} and a decay of {decay} steps exceed {steps}"


def _concurrency(bounds: Any, group: int) -> Iterator[tuple[str, str]]:
    if not isinstance(bounds, Mapping):
        return
    most, least = _whole(bounds.get("max_inflight"), 1024), _whole(bounds.get("min_inflight"), 1)
    first = bounds.get("initial_inflight")
    path = "orchestrator.concurrency"
    if isinstance(first, int) and first < group:
        yield f"{path}.initial_inflight", f"{first} rollouts to begin with cannot hold a group of {group}"
    if isinstance(first, int) and first > most:
        yield f"{path}.initial_inflight", f"{first} rollouts to begin with are more than max_inflight {most}"
    if least > most:
        yield f"{path}.min_inflight", f"min_inflight {least} is more than max_inflight {most}"


def _whole(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
