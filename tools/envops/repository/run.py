"""One training run as the registry declares it, with its defaults and the line of every key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Schema = Literal["portable", "august", "later"]
Algorithm = Literal["grpo", "max_rl", "rloo", "reinforce"]

_AS_WRITTEN = (
    "model",
    "max_steps",
    "schema",
    "batch_size",
    "rollouts_per_example",
    "algorithm",
    "seq_len",
    "max_concurrent",
    "max_off_policy_steps",
    "difficulty_filter",
    "renderer",
    "submit",
    "ignore",
    "overrides",
    "slurm",
)
"""Keys that need no conversion."""

LORA_LEARNING_RATE = 1e-5
FULL_LEARNING_RATE = 1e-6
EVAL_INTERVAL = 50


@dataclass(frozen=True)
class Source:
    """One environment of the mix, or one that is evaluated on."""

    id: str
    name: str | None = None
    ratio: float = 1.0
    rollouts_per_example: int | None = None
    """Only where it differs from the run's."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the taskset (v1) or arguments of load_environment (v0)."""
    harness: Mapping[str, Any] | None = None
    runtime: Mapping[str, Any] | None = None
    max_turns: int | None = None

    @property
    def label(self) -> str:
        """What metrics call it."""
        return self.name or self.id


@dataclass(frozen=True)
class Sampling:
    """How replies are sampled."""

    max_tokens: int = 1024
    temperature: float = 1.0
    enable_thinking: bool | None = None


@dataclass(frozen=True)
class Lora:
    """Low-rank adaptation."""

    rank: int = 16
    alpha: float = 32.0


@dataclass(frozen=True)
class Evaluation:
    """Evaluation while training."""

    interval: int = EVAL_INTERVAL
    tasks: int | None = None
    """`None` is all of them."""
    rollouts: int = 1
    temperature: float | None = None
    skip_first: bool = False
    environments: tuple[Source, ...] = ()


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints while training."""

    interval: int | None = None
    keep: int | None = None


@dataclass(frozen=True)
class Resume:
    """A checkpoint to begin from; exactly one of the three is given."""

    step: int | None = None
    folder: str | None = None
    run: str | None = None


@dataclass(frozen=True)
class Wandb:
    """Weights & Biases."""

    project: str
    entity: str | None = None
    group: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gpus:
    """What the run is spread over."""

    train: int = 1
    inference: int = 1
    per_node: int = 8
    tensor_parallel: int = 1
    context_parallel: int = 1
    train_nodes: int | None = None
    inference_nodes: int | None = None
    type: str | None = None

    @property
    def multi_node(self) -> bool:
        """Whether nodes are counted instead of GPUs."""
        return self.train_nodes is not None or self.inference_nodes is not None

    @property
    def total(self) -> int:
        """GPUs of the whole run."""
        if self.multi_node:
            return ((self.train_nodes or 1) + (self.inference_nodes or 0)) * self.per_node
        return self.train + self.inference


@dataclass(frozen=True)
class Budget:
    """What the run may cost, and what is known of its price."""

    max_gpu_hours: float | None = None
    max_dollars: float | None = None
    hours: float | None = None
    gpu_hour_price: float | None = None


@dataclass(frozen=True)
class RunSpec:
    """One run; what was left out has its default, and `lines` knows what was written where."""

    name: str
    backend: str
    model: str
    environments: tuple[Source, ...]
    max_steps: int
    schema: Schema = "portable"
    batch_size: int = 128
    """Rollouts per step, over all tasks."""
    rollouts_per_example: int = 8
    learning_rate: float = LORA_LEARNING_RATE
    weight_decay: float = 0.0
    algorithm: Algorithm = "grpo"
    seq_len: int = 4096
    max_concurrent: int | None = None
    max_off_policy_steps: int | None = None
    difficulty_filter: bool = False
    renderer: str | None = None
    sampling: Sampling = Sampling()
    lora: Lora | None = None
    eval: Evaluation | None = None
    checkpoints: Checkpoints | None = None
    resume: Resume | None = None
    wandb: Wandb | None = None
    secrets: tuple[str, ...] = ()
    gpus: Gpus = Gpus()
    slurm: Mapping[str, Any] | None = None
    submit: Literal["on-release", "manual"] = "manual"
    budget: Budget = Budget()
    ignore: Mapping[str, str] = field(default_factory=dict)
    """Rule id → the reason why it is ignored here."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    file: str = "registry.yaml"
    lines: Mapping[str, int] = field(default_factory=dict)
    """Where a key stands: `sampling.max_tokens` → line; the run itself is ''."""
    written: frozenset[str] = frozenset()
    """The keys that were written, merged ones included, and are no defaults."""

    def line(self, key: str = "") -> int | None:
        """The line of a key, or of the nearest that holds it."""
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        return self.lines.get(key)

    def says(self, key: str) -> bool:
        """Whether the key was written and is no default."""
        return key in self.written

    @property
    def evaluated(self) -> tuple[Source, ...]:
        """What is evaluated on: what is trained on, unless said otherwise."""
        if self.eval is None:
            return ()
        return self.eval.environments or self.environments

    def group_size(self, source: Source) -> int:
        """Rollouts of each task of an environment of the mix."""
        return source.rollouts_per_example or self.rollouts_per_example


def run_spec(name: str, declared: Mapping[str, Any], lines: Mapping[str, int], file: str) -> RunSpec:
    """The run that a mapping declares; the mapping has passed the registry's schema."""
    values: dict[str, Any] = {key: declared[key] for key in _AS_WRITTEN if key in declared}
    lora = Lora(**_numbers(declared["lora"], "alpha")) if "lora" in declared else None
    rate = declared.get("learning_rate", LORA_LEARNING_RATE if lora else FULL_LEARNING_RATE)
    return RunSpec(
        name=name,
        backend=declared["backend"],
        environments=tuple(_source(each) for each in declared["environments"]),
        learning_rate=float(rate),
        weight_decay=float(declared.get("weight_decay", 0.0)),
        sampling=Sampling(**_numbers(declared.get("sampling", {}), "temperature")),
        lora=lora,
        eval=_evaluation(declared["eval"]) if "eval" in declared else None,
        checkpoints=Checkpoints(**declared["checkpoints"]) if "checkpoints" in declared else None,
        resume=Resume(**declared["resume"]) if "resume" in declared else None,
        wandb=_wandb(declared["wandb"]) if "wandb" in declared else None,
        secrets=tuple(declared.get("secrets", ())),
        gpus=Gpus(**declared.get("gpus", {})),
        budget=Budget(**declared.get("budget", {})),
        file=file,
        lines=lines,
        written=frozenset(_keys(declared)),
        **values,
    )


def _keys(declared: Any, before: str = "") -> Iterator[str]:
    """Every place of a declaration, as `lines` names it."""
    if isinstance(declared, dict):
        for key, value in declared.items():
            place = f"{before}.{key}" if before else key
            yield place
            yield from _keys(value, place)
    elif isinstance(declared, list):
        for index, value in enumerate(declared):
            yield f"{before}[{index}]"
            yield from _keys(value, f"{before}[{index}]")


def _source(declared: Mapping[str, Any]) -> Source:
    return Source(
        id=declared["id"],
        name=declared.get("name"),
        ratio=float(declared.get("ratio", 1.0)),
        rollouts_per_example=declared.get("rollouts_per_example"),
        settings={**declared.get("args", {}), **declared.get("taskset", {})},
        harness=declared.get("harness"),
        runtime=declared.get("runtime"),
        max_turns=declared.get("max_turns"),
    )


def _evaluation(declared: Mapping[str, Any]) -> Evaluation:
    given = _numbers(declared, "temperature")
    given["environments"] = tuple(_source(each) for each in declared.get("environments", ()))
    return Evaluation(**given)


def _wandb(declared: Mapping[str, Any]) -> Wandb:
    return Wandb(**{**declared, "tags": tuple(declared.get("tags", ()))})


def _numbers(declared: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The mapping with some values as floats: `1` and `1.0` are one run."""
    return {key: float(value) if key in names else value for key, value in declared.items()}
