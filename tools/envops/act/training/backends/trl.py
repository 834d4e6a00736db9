"""TRL's GRPOTrainer on this machine, with rollouts and rewards from the environment's own worker.

Compiled is what the trainer is given (names of `trl.GRPOConfig` in `[grpo]`, of
`peft.LoraConfig` in `[lora]`) and what the rollouts need (`[rollouts]`). Nothing is submitted
anywhere. What runs here so far is the probe, which puts a tiny model in the place of the run's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops.act.training.backend import Compiled, Request, file_path, heading, with_overrides
from envops.act.training.native import NativeConfig, origin
from envops.act.training.written_config import toml_text

if TYPE_CHECKING:
    from envops.declare.run import RunSpec

NOT_YET = "That trains a tiny model; driving the model named here with these settings is not built yet."
MICRO_BATCH = 8
"""Rollouts of one backward pass, at most."""


def compile_run(request: Request) -> Compiled:
    """The settings of the trainer and of the rollouts, as TOML."""
    spec = request.spec
    config = with_overrides(_config(request), spec)
    path = file_path(request, "toml")
    command = ("nox", "-s", "train", "--", request.only_source().id, "--probe")
    about = heading(request, " ".join(command), NOT_YET)
    text = toml_text(config, about)
    return Compiled(
        run=spec.name,
        backend=spec.backend,
        door="here",
        files={path: text},
        command=command,
        native=config,
        notes=(NOT_YET, *config.left_out),
        secrets=spec.secrets,
        knobs={"rollouts per step": spec.batch_size},
    )


def _config(request: Request) -> NativeConfig:
    spec, source, config = request.spec, request.only_source(), NativeConfig()
    group = spec.group_size(source)
    config.put("model", spec.model, origin(spec, "model"))
    config.put("rollouts.environment", source.id, origin(spec, "environments[0].id"))
    if source.settings:
        config.put("rollouts.args", dict(source.settings), origin(spec, "environments[0].taskset"))
    config.put("rollouts.max_concurrent", spec.max_concurrent, origin(spec, "max_concurrent"))
    config.put("rollouts.max_turns", source.max_turns, origin(spec, "environments[0].max_turns"))
    micro = _micro_batch(spec.batch_size)
    kept, evaluated = spec.checkpoints, spec.eval
    settings = {
        "output_dir": (f"outputs/{spec.name}", "checkpoints and metrics"),
        "run_name": (spec.name, "the run's name"),
        "max_steps": (spec.max_steps, origin(spec, "max_steps")),
        "per_device_train_batch_size": (micro, "rollouts of one backward pass; divides batch_size"),
        "gradient_accumulation_steps": (spec.batch_size // micro, origin(spec, "batch_size", "rollouts per step")),
        "num_generations": (group, origin(spec, "rollouts_per_example")),
        "max_completion_length": (spec.sampling.max_tokens, origin(spec, "sampling.max_tokens")),
        "temperature": (spec.sampling.temperature, origin(spec, "sampling.temperature")),
        "learning_rate": (spec.learning_rate, origin(spec, "learning_rate")),
        "weight_decay": (spec.weight_decay, origin(spec, "weight_decay")),
        "save_strategy": ("steps" if kept and kept.interval else "no", origin(spec, "checkpoints")),
        "save_steps": (kept.interval if kept else None, origin(spec, "checkpoints.interval")),
        "save_total_limit": (kept.keep if kept else None, origin(spec, "checkpoints.keep")),
        "eval_strategy": ("steps" if evaluated else "no", origin(spec, "eval")),
        "eval_steps": (evaluated.interval if evaluated else None, origin(spec, "eval.interval")),
        "num_generations_eval": (evaluated.rollouts if evaluated else None, origin(spec, "eval.rollouts")),
        "per_device_eval_batch_size": (_eval_batch(spec), "rollouts; whole tasks"),
        "logging_steps": (1, "every step is followed"),
        "report_to": ("wandb" if spec.wandb else "none", origin(spec, "wandb")),
    }
    for name, (value, said) in settings.items():
        config.put(f"grpo.{name}", value, said)
    if evaluated is not None:
        config.put("rollouts.eval_tasks", evaluated.tasks, origin(spec, "eval.tasks"))
    if spec.lora is not None:
        config.put("lora.r", spec.lora.rank, origin(spec, "lora.rank"))
        config.put("lora.lora_alpha", spec.lora.alpha, origin(spec, "lora.alpha"))
    if spec.resume is not None:
        config.put("rollouts.resume_from", spec.resume.folder, origin(spec, "resume.folder"))
    if spec.difficulty_filter:
        config.left_out.append("difficulty_filter: GRPOTrainer has none; groups without variance give no gradient")
    return config


def _eval_batch(spec: RunSpec) -> int | None:
    if spec.eval is None:
        return None
    return spec.eval.rollouts * max(1, MICRO_BATCH // spec.eval.rollouts)


def _micro_batch(batch: int) -> int:
    return max(size for size in range(1, MICRO_BATCH + 1) if batch % size == 0)
