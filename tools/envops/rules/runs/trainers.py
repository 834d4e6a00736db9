"""What each trainer can do, as data with sources: the matrix of backends.

Measured means that the integration's own calls were made against releases of verifiers
with a mock engine, or a configuration went through the trainer's own schema package; read
means from source or documentation alone. Snapshots: prime-rl 559b447, rLLM 9beb6e0,
tinker-cookbook 9dfcc3a, SkyRL a956457, all of August 2026; prime 0.12.0 and 0.18.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from packaging.requirements import Requirement
from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from envops.repository.package import Generation

BatchUnit = Literal["rollouts", "tasks"]


@dataclass(frozen=True)
class Trainer:
    """One backend."""

    name: str
    title: str
    generations: tuple[Generation, ...]
    releases: tuple[str, ...]
    """Releases of verifiers that it runs with; of these one must be admitted. Empty where none does."""
    released: str
    """The same in words."""
    batch_unit: BatchUnit
    """What its own batch size counts."""
    lora: Literal["only", "either"]
    algorithms: tuple[str, ...]
    source: str
    """Where all this is from."""
    any_release: bool = False
    """The environment runs in a virtual environment of its own, so its release does not matter."""
    many_environments: bool = False
    hosted: bool = False
    forwards: tuple[str, ...] | None = None
    """The only secrets that reach the run; `None` where it sees those of its own machine."""
    off_policy: bool = False
    """Whether the age of rollouts can be bounded."""
    retired: str = ""


_V1 = ("0.3.1", "0.4.0")
_V0 = ("0.1.8.post2", "0.1.9.post3")
_MEASURED_V0 = "measured: its exact calls on 0.1.8.post2 to 0.3.1; from 0.1.10 on it fails"

TRAINERS: Mapping[str, Trainer] = {
    trainer.name: trainer
    for trainer in (
        Trainer(
            "prime",
            "Prime Intellect, hosted",
            ("v1",),
            _V1,
            "0.3.1 to 0.4",
            "rollouts",
            "either",
            ("grpo", "max_rl"),
            "prime 0.18.0 measured against a loopback server; prime-rl dropped v0 in 03f12efba (2026-08-10)",
            many_environments=True,
            hosted=True,
            forwards=("WANDB_API_KEY", "HF_TOKEN"),
            off_policy=True,
        ),
        Trainer(
            "prime-rl",
            "prime-rl, self-managed",
            ("v1",),
            _V1,
            "0.3.1 to 0.4",
            "rollouts",
            "either",
            ("grpo", "max_rl"),
            "measured: prime-rl's schema package with verifiers 0.3.1 and 0.4.0; v0 dropped in 03f12efba",
            many_environments=True,
            off_policy=True,
        ),
        Trainer(
            "trl",
            "TRL, on this machine",
            ("v0", "v1"),
            (),
            "any: the environment runs in its own virtual environment",
            "rollouts",
            "either",
            ("grpo",),
            "measured: TRL 1.16.0 with rollout_func, two turns and a mask of the environment's own tokens",
            any_release=True,
        ),
        Trainer(
            "rllm-verl",
            "rLLM on verl",
            ("v0",),
            _V0,
            "0.1.8.post2 and 0.1.9.post3",
            "tasks",
            "either",
            ("grpo", "rloo", "reinforce"),
            f"{_MEASURED_V0} (no score_sem); rLLM examples/verifiers_env at 9beb6e0",
        ),
        Trainer(
            "rllm-tinker",
            "rLLM on Tinker",
            ("v0",),
            _V0,
            "0.1.8.post2 and 0.1.9.post3",
            "tasks",
            "only",
            ("grpo", "rloo", "reinforce"),
            f"{_MEASURED_V0}; its own train.py cannot start Tinker since 9b9e3582, so we write the entry module",
        ),
        Trainer(
            "tinker",
            "tinker-cookbook",
            ("v0",),
            _V0,
            "0.1.8.post2 and 0.1.9.post3",
            "tasks",
            "only",
            ("grpo",),
            f"{_MEASURED_V0} (run_group's signature); recipe verifiers_rl at 9dfcc3a",
        ),
        Trainer(
            "skyrl",
            "SkyRL",
            ("v0",),
            (),
            "none: it needs RolloutInput (0.1.8 and later) and process_env_results_vllm (0.1.7 and before)",
            "tasks",
            "either",
            ("grpo", "rloo", "reinforce"),
            "measured on 0.1.8.post2 to 0.3.1, read for 0.1.5 to 0.1.7; its own test of the integration is skipped",
        ),
        Trainer(
            "verifiers-rl",
            "verifiers' own RLTrainer (legacy)",
            ("v0",),
            ("0.1.9.post3",),
            "0.1.9.post3 alone, with the extra rl",
            "rollouts",
            "either",
            ("grpo",),
            "read: last in verifiers[rl]==0.1.9.post3; removed from the repository in a497ee524 (2026-07-08)",
        ),
        Trainer(
            "prime-lora",
            "Prime Intellect, shared LoRA (retired)",
            ("v0", "v1"),
            (),
            "the platform's own",
            "rollouts",
            "only",
            ("grpo",),
            "measured: prime 0.12.0 takes its configuration, 0.13.0 and later refuse it",
            any_release=True,
            many_environments=True,
            hosted=True,
            retired="the platform takes no new runs since 2026-10-05 (docs.primeintellect.ai/hosted-training)",
        ),
    )
}


def admits(trainer: Trainer, generation: Generation | None, requires: tuple[str, ...] | None) -> str:
    """Why the trainer cannot run an environment, or an empty string; what is not known is no reason."""
    if generation is not None and generation not in trainer.generations:
        return f"{trainer.name} runs {' and '.join(trainer.generations)} environments, this one is {generation}"
    if trainer.any_release:
        return ""
    if not trainer.releases:
        return f"no release of verifiers works with {trainer.name}: {trainer.released}"
    if requires is None:
        return ""
    bounds = [Requirement(text).specifier for text in requires]
    if all(any(not bound.contains(Version(text), prereleases=True) for bound in bounds) for text in trainer.releases):
        asked = ", ".join(requires) or "verifiers"
        return f"{trainer.name} works with verifiers {trainer.released}, the package requires {asked}"
    return ""


def alternatives(generation: Generation | None, requires: tuple[str, ...] | None) -> tuple[str, ...]:
    """The trainers that can run an environment and are not retired."""
    return tuple(
        name for name, trainer in TRAINERS.items() if not trainer.retired and not admits(trainer, generation, requires)
    )


NO_FILTER = ("tinker", "trl", "verifiers-rl")
"""Trainers without a filter that draws other groups (read from their sources)."""
