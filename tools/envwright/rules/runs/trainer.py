"""The data of a trainer for rules of runs: its limits, its refusals, and the settings of a compiled run.

These are data. `envwright.training.trainers` fills them, one file for each trainer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from packaging.requirements import Requirement
from packaging.version import Version

if TYPE_CHECKING:
    from envwright.repository.package import Generation

BatchUnit = Literal["rollouts", "tasks"]
RefusalKind = Literal["schema", "service", "names", "combination"]
"""schema: a key or a value that the configuration's schema refuses; service: the hosted service; names: names of
environments that clash; combination: settings that the trainer does not take together."""


KeptResult = Literal["weights", "shards", "cleaned up", "nothing"]
"""weights: weights or an adapter that vLLM loads; shards: a checkpoint that has to be converted first; cleaned up: a
checkpoint that the platform deletes when the run ends; nothing: no checkpoint."""
EvaluationTasks = Literal["declared", "own split", "kept from training", "none"]
"""declared: the tasks that the configuration names; own split: the result of get_eval_dataset; kept from training:
tasks that the trainer does not train on; none: the trainer evaluates nothing."""


@dataclass(frozen=True)
class TrainerLimits:
    """The limits of one trainer."""

    name: str
    """The name, as `backend` in registry.yaml."""
    title: str
    generations: tuple[Generation, ...]
    releases: tuple[str, ...]
    """Releases of verifiers that it runs with; the package must admit one of them. Empty if none works."""
    released: str
    """The supported releases in words."""
    batch_unit: BatchUnit
    """The unit of its own batch size."""
    lora: Literal["only", "either"]
    algorithms: tuple[str, ...]
    source: str
    """The source of these data."""
    evaluates: EvaluationTasks = "own split"
    """The tasks of an evaluation while it trains."""
    any_release: bool = False
    """The environment runs in a virtual environment of its own, so its release does not matter."""
    many_environments: bool = False
    hosted: bool = False
    on_this_machine: bool = False
    """`envwright train RUN` trains it."""
    forwards: tuple[str, ...] | None = None
    """The only secrets that reach the run; `None` if the run sees those of its own machine."""
    provides: tuple[str, ...] = ()
    """Secrets that the service itself gives to each run."""
    bounds_age: bool = False
    """Whether it can bound the age of rollouts (`max_off_policy_steps`)."""
    replaces_groups: bool = True
    """Whether it can replace groups without variance (`difficulty_filter`)."""
    algorithm_settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Algorithm → its parameters."""
    many_agents: bool = False
    """Whether it trains environments of several agents."""
    renders_again: bool = True
    """Whether it renders earlier turns again, by the model's chat template."""
    packs_micro_batches: bool = False
    """Whether its micro-batches have `seq_len` tokens, so that batch and group size do not change its peak memory."""
    verifiers_commit: str = ""
    """The commit of verifiers that the trainer's own commit pins, between two releases; empty if it runs a release."""
    schemas: tuple[str, ...] = ()
    """Versions of its configuration that `schema` chooses from."""
    most_lora_rank: int | None = None
    models: Mapping[str, str] | None = None
    """Every model that it knows by name and the model's chat renderer; `None` if any name is taken."""
    renderers: Collection[str] = ()
    """Chat renderers that a run may name, which makes the model's name irrelevant."""


@dataclass(frozen=True)
class TrainerSettings:
    """The settings of a compiled run, overrides included; `None` if the trainer has none or its default holds."""

    batch: int | None = None
    """Rollouts per step, for every trainer."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """Environment → rollouts of each task."""
    model: str = ""
    """The model's name, as the trainer compares it with known ones."""
    renderer: str | None = None
    algorithms: tuple[str, ...] = ("grpo",)
    max_steps: int | None = None
    max_tokens: Mapping[str, int] = field(default_factory=dict)
    """Environment → tokens of one reply."""
    seq_len: int | None = None
    max_model_len: int | None = None
    temperatures: Mapping[str, float] = field(default_factory=dict)
    eval_interval: int | None = None
    learning_rate: float | None = None
    lora_rank: int | None = None
    """`None` is full fine-tuning."""
    max_inflight: int | None = None
    workers: int | None = None
    """Processes that serve environments, if their number is fixed."""
    train_gpus: int | None = None
    inference_gpus: int | None = None
    gpus_per_node: int | None = None
    multi_node: bool = False
    tensor_parallel: int = 1
    context_parallel: int = 1
    broadcast: str | None = None
    """The transport of weights to the sampler."""
    replaces_groups: bool = False
    """Whether groups without variance are replaced."""
    difficulty_bounds: tuple[tuple[float, ...], ...] = ()
    """The thresholds of each pool of difficulties."""
    result: KeptResult | None = None
    """What is left of the last step; `None` if it is not known."""


@dataclass(frozen=True)
class RefusedSetting:
    """A setting that the trainer refuses when it reads its configuration."""

    kind: RefusalKind
    key: str
    """The key of the run in registry.yaml."""
    message: str
    fix: str | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


def refusal_of_environment(
    trainer: TrainerLimits, generation: Generation | None, requires: tuple[str, ...] | None
) -> str:
    """Why the trainer cannot run an environment, or an empty string; what is unknown does not count as a reason."""
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


def alternatives(
    trainers: Iterable[TrainerLimits], generation: Generation | None, requires: tuple[str, ...] | None
) -> tuple[str, ...]:
    """The trainers that can run an environment."""
    return tuple(trainer.name for trainer in trainers if not refusal_of_environment(trainer, generation, requires))
