"""The settings that decide how a run goes, read from the compiled configuration.

From the trainer's own configuration and not from the declaration: what `overrides` changed
counts. Batches are in rollouts whatever the trainer counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from envops.rules.runs.trainers import TRAINERS

if TYPE_CHECKING:
    from envops.repository.run import RunSpec

PRIME_RL = ("prime", "prime-rl")
DEFAULT_GROUP = 1
"""What prime-rl takes where no group size is set (559b447)."""


@dataclass(frozen=True)
class Knobs:
    """What a rule may ask about; `None` where the trainer has no such setting or its default holds."""

    batch: int | None
    """Rollouts per step."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """Environment → rollouts of each task."""
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
    """Processes that serve environments, where their number is fixed."""
    train_gpus: int | None = None
    inference_gpus: int | None = None
    gpus_per_node: int | None = None
    multi_node: bool = False
    tensor_parallel: int = 1
    context_parallel: int = 1
    broadcast: str | None = None


_PATHS: Mapping[str, Mapping[str, str]] = {
    "prime-lora": {
        "batch": "batch_size",
        "group": "rollouts_per_example",
        "max_tokens": "sampling.max_tokens",
        "temperature": "sampling.temperature",
        "max_steps": "max_steps",
        "eval_interval": "eval.interval",
        "learning_rate": "learning_rate",
        "max_inflight": "max_inflight_rollouts",
    },
    "verifiers-rl": {
        "batch": "trainer.args.batch_size",
        "group": "trainer.args.rollouts_per_example",
        "max_tokens": "trainer.args.max_tokens",
        "temperature": "trainer.args.temperature",
        "seq_len": "trainer.args.max_seq_len",
        "max_model_len": "inference.args.max_model_len",
        "max_steps": "trainer.args.max_steps",
        "learning_rate": "trainer.args.learning_rate",
        "lora_rank": "trainer.args.lora_rank",
        "max_inflight": "trainer.args.max_concurrent",
        "train_gpus": "trainer.gpus",
        "inference_gpus": "inference.gpus",
    },
    "trl": {
        "group": "grpo.num_generations",
        "seq_len": "rollouts.seq_len",
        "max_tokens": "grpo.max_completion_length",
        "temperature": "grpo.temperature",
        "max_steps": "grpo.max_steps",
        "eval_interval": "grpo.eval_steps",
        "learning_rate": "grpo.learning_rate",
        "lora_rank": "lora.r",
    },
    "tinker": {
        "batch": "groups_per_batch",
        "group": "group_size",
        "max_tokens": "max_tokens",
        "temperature": "temperature",
        "max_steps": "max_steps",
        "eval_interval": "eval_every",
        "learning_rate": "learning_rate",
        "lora_rank": "lora_rank",
    },
    "rllm-verl": {
        "batch": "data.train_batch_size",
        "group": "actor_rollout_ref.rollout.n",
        "max_tokens": "data.max_response_length",
        "temperature": "actor_rollout_ref.rollout.temperature",
        "max_steps": "trainer.total_training_steps",
        "eval_interval": "trainer.test_freq",
        "learning_rate": "actor_rollout_ref.actor.optim.lr",
        "lora_rank": "actor_rollout_ref.model.lora_rank",
    },
    "rllm-tinker": {
        "batch": "rllm.data.train_batch_size",
        "group": "training.group_size",
        "max_tokens": "rllm.data.max_response_length",
        "temperature": "rllm.rollout.train.temperature",
        "seq_len": "training.max_length",
        "max_steps": "rllm.trainer.total_batches",
        "eval_interval": "rllm.trainer.test_freq",
        "learning_rate": "training.learning_rate",
        "lora_rank": "model.lora_rank",
    },
    "skyrl": {
        "batch": "trainer.train_batch_size",
        "group": "generator.n_samples_per_prompt",
        "max_tokens": "generator.sampling_params.max_generate_length",
        "temperature": "generator.sampling_params.temperature",
        "max_steps": "trainer.max_training_steps",
        "eval_interval": "trainer.eval_interval",
        "learning_rate": "trainer.policy.optimizer_config.lr",
        "lora_rank": "trainer.policy.model.lora.rank",
    },
}
"""Where each trainer keeps what: our name → the path in its configuration."""


def knobs_of(spec: RunSpec, native: Mapping[str, Any]) -> Knobs:
    """The settings of a compiled run; values of a wrong type are as if they were not there."""
    return _prime_rl(native) if spec.backend in PRIME_RL else _by_paths(spec, native)


def at(values: Any, path: str) -> Any:
    """The value at a dotted path; `None` where there is none."""
    for step in path.split("."):
        values = values.get(step) if isinstance(values, Mapping) else None
    return values


def sources(native: Mapping[str, Any], kind: str = "train") -> list[Mapping[str, Any]]:
    """The source tables of a prime-rl configuration."""
    found = at(native, f"orchestrator.{kind}.source")
    return [source for source in found if isinstance(source, Mapping)] if isinstance(found, list) else []


def source_name(source: Mapping[str, Any]) -> str:
    """What metrics call a source of prime-rl: its name, else its taskset's id."""
    return str(source.get("name") or at(source, "env.taskset.id") or at(source, "env.id") or "?")


def _by_paths(spec: RunSpec, native: Mapping[str, Any]) -> Knobs:
    paths = _PATHS[spec.backend]

    def number(name: str) -> Any:
        return _number(at(native, paths[name])) if name in paths else None

    labels = [source.label for source in spec.environments]
    group = _whole(number("group")) or spec.rollouts_per_example
    groups = {source.label: source.rollouts_per_example or group for source in spec.environments}
    groups = groups if spec.backend == "prime-lora" else dict.fromkeys(labels, group)
    batch = _whole(number("batch"))
    if TRAINERS[spec.backend].batch_unit == "tasks" and batch is not None:
        batch *= group
    if spec.backend == "trl":
        device, steps = at(native, "grpo.per_device_train_batch_size"), at(native, "grpo.gradient_accumulation_steps")
        sizes = _whole(_number(device)), _whole(_number(steps))
        batch = sizes[0] * sizes[1] if sizes[0] is not None and sizes[1] is not None else None
    limit, temperature = _whole(number("max_tokens")), number("temperature")
    interval = _whole(number("eval_interval"))
    return Knobs(
        batch=batch,
        groups=groups,
        algorithms=(spec.algorithm,),
        max_steps=_whole(number("max_steps")),
        max_tokens=dict.fromkeys(labels, limit) if limit is not None else {},
        seq_len=_whole(number("seq_len")) or spec.seq_len,
        max_model_len=_whole(number("max_model_len")),
        temperatures=dict.fromkeys(labels, float(temperature)) if temperature is not None else {},
        eval_interval=interval if interval and interval > 0 else None,
        learning_rate=number("learning_rate"),
        lora_rank=_whole(number("lora_rank")) or (spec.lora.rank if spec.lora and "lora_rank" not in paths else None),
        max_inflight=_whole(number("max_inflight")) if "max_inflight" in paths else spec.max_concurrent,
        train_gpus=_whole(number("train_gpus")) or spec.gpus.train,
        inference_gpus=_whole(number("inference_gpus")) if "inference_gpus" in paths else None,
        gpus_per_node=spec.gpus.per_node,
        multi_node=spec.gpus.multi_node,
        tensor_parallel=spec.gpus.tensor_parallel,
    )


def _prime_rl(native: Mapping[str, Any]) -> Knobs:
    orchestrator, deployment = _table(native, "orchestrator"), _table(native, "deployment")
    train = _table(orchestrator, "train")
    shared_group = _whole(_number(at(train, "group_size"))) or _whole(_number(at(orchestrator, "group_size")))
    trained = sources(native)
    algorithm = at(train, "algo.type") or at(orchestrator, "algo.type") or "grpo"
    limit = _number(at(train, "sampling.max_completion_tokens"))
    temperature = _number(at(train, "sampling.temperature"))
    knobs = Knobs(
        batch=_whole(_number(orchestrator.get("batch_size"))) or (None if "token_batch_size" in orchestrator else 128),
        groups={source_name(each): _group(each, shared_group) for each in trained},
        algorithms=tuple(dict.fromkeys(str(at(each, "algo.type") or algorithm) for each in trained)),
        max_steps=_whole(_number(native.get("max_steps"))),
        max_tokens=_per_source(trained, "sampling.max_completion_tokens", limit),
        seq_len=_whole(_number(at(native, "orchestrator.seq_len") or native.get("seq_len"))) or 2048,
        max_model_len=_whole(_number(at(native, "inference.vllm.max_model_len"))),
        temperatures=_per_source(trained, "sampling.temperature", temperature),
        eval_interval=_whole(_number(at(orchestrator, "eval.interval"))),
        learning_rate=_number(at(native, "trainer.optim.lr")),
        lora_rank=_whole(_number(at(native, "trainer.model.lora.rank")))
        or (16 if at(native, "trainer.model.lora") is not None else None),
        max_inflight=_whole(_number(at(orchestrator, "concurrency.max_inflight"))),
        workers=max((_whole(_number(at(each, "serve.pool.num_workers"))) or 0 for each in trained), default=0) or None,
        tensor_parallel=_whole(_number(at(native, "inference.vllm.tensor_parallel_size"))) or 1,
        context_parallel=_whole(_number(at(native, "trainer.model.cp"))) or 1,
        broadcast=at(native, "weight_broadcast.type"),
    )
    multi_node = deployment.get("type") == "multi_node"
    return replace(
        knobs,
        multi_node=multi_node,
        train_gpus=None if multi_node else _declared(deployment, "num_train_gpus", 1),
        inference_gpus=None if multi_node else _declared(deployment, "num_infer_gpus", 1),
        gpus_per_node=_declared(deployment, "gpus_per_node", 8),
    )


def _group(source: Mapping[str, Any], shared: int | None) -> int:
    return _whole(_number(source.get("group_size"))) or shared or DEFAULT_GROUP


def _declared(table: Mapping[str, Any], key: str, default: int) -> int:
    value = table.get(key, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _per_source(trained: Sequence[Mapping[str, Any]], path: str, shared: Any) -> dict[str, Any]:
    found = {source_name(each): _number(at(each, path)) for each in trained}
    return {
        name: value if value is not None else shared for name, value in found.items() if (value or shared) is not None
    }


def _table(values: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    found = at(values, path)
    return found if isinstance(found, Mapping) else {}


def _number(value: Any) -> Any:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if usable else None


def _whole(value: Any) -> int | None:
    return int(value) if value is not None and int(value) == value else None
