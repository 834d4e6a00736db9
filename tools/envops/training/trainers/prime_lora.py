"""The retired shared-LoRA shape: `model = "…"` and `[[env]]`, for prime up to 0.12.0.

The platform takes no new runs of this kind since 2026-10-05, so this serves old runs and private installations; `envops
train` never submits it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envops.rules.runs.trainer import TrainerLimits, TrainerSettings
from envops.training.trainers.native_config import NativeConfig, origin, toml_text
from envops.training.trainers.trainer import (
    Compiled,
    CompileRequest,
    Trainer,
    file_path,
    heading,
    settings_at,
    units,
    with_overrides,
)

if TYPE_CHECKING:
    from envops.repository.run import RunSpec

LIMITS = TrainerLimits(
    name="prime-lora",
    title="Prime Intellect, shared LoRA (retired)",
    generations=("v0", "v1"),
    releases=(),
    released="the platform's own",
    batch_unit="rollouts",
    lora="only",
    algorithms=("grpo",),
    source="measured: prime 0.12.0 accepts its configuration, 0.13.0 and later refuse it",
    any_release=True,
    evaluates="declared",
    many_environments=True,
    hosted=True,
    retired="the platform accepts no new runs since 2026-10-05 (docs.primeintellect.ai/hosted-training)",
)
PATHS = {
    "batch": "batch_size",
    "group": "rollouts_per_example",
    "max_tokens": "sampling.max_tokens",
    "temperature": "sampling.temperature",
    "max_steps": "max_steps",
    "interval": "eval.interval",
    "learning_rate": "learning_rate",
    "max_inflight": "max_inflight_rollouts",
}


def _compile(request: CompileRequest) -> Compiled:
    """The flat TOML of prime 0.12's RLConfig."""
    spec = request.spec
    config = with_overrides(_config(request), spec)
    path = file_path(request, "toml")
    about = heading(
        request,
        LIMITS.title,
        f"prime train {path} (prime up to 0.12.0)",
        f"Retired: {LIMITS.retired}.",
    )
    text = toml_text(config, about)
    retired = f"retired: {LIMITS.retired}; use backend: prime"
    return Compiled(
        files={path: text},
        command=("uvx", "--from", "prime==0.12.0", "prime", "train", path, "-y", "-o", "json"),
        native=config,
        notes=(retired, *config.left_out),
        secrets=("PRIME_API_KEY", *spec.secrets),
        units=units(request),
    )


def _config(request: CompileRequest) -> NativeConfig:
    spec, config = request.spec, NativeConfig()
    config.put("name", spec.name, "the run's name")
    config.put("model", spec.model, origin(spec, "model"))
    config.put("max_steps", spec.max_steps, origin(spec, "max_steps"))
    config.put("batch_size", spec.batch_size, origin(spec, "batch_size", "rollouts per step"))
    config.put("rollouts_per_example", spec.group_size, origin(spec, "group_size"))
    config.put("max_inflight_rollouts", spec.max_concurrent, origin(spec, "max_concurrent"))
    config.put("learning_rate", spec.learning_rate, origin(spec, "learning_rate"))
    if spec.lora is not None:
        config.put("lora_alpha", int(spec.lora.alpha), origin(spec, "lora.alpha"))
        config.left_out.append(f"lora.rank = {spec.lora.rank}: the shared service chose the rank")
    config.put("sampling.max_tokens", spec.sampling.max_tokens, origin(spec, "sampling.max_tokens"))
    config.put("sampling.temperature", spec.sampling.temperature, origin(spec, "sampling.temperature"))
    thinking = spec.sampling.enable_thinking
    config.put("sampling.enable_thinking", thinking, origin(spec, "sampling.enable_thinking"))
    _sources(config, request)
    _evaluation(config, request)
    if spec.checkpoints is not None:
        config.put("checkpoints.interval", spec.checkpoints.interval, origin(spec, "checkpoints.interval"))
        config.put("checkpoints.keep_cloud", spec.checkpoints.keep, origin(spec, "checkpoints.keep"))
    if spec.wandb is not None:
        config.put("wandb.project", spec.wandb.project, origin(spec, "wandb.project"))
        config.put("wandb.entity", spec.wandb.entity, origin(spec, "wandb.entity"))
    if spec.difficulty_filter:
        config.put(("pre_batch_filters", 0, "type"), "zero_advantage", origin(spec, "difficulty_filter"))
        config.put(("pre_batch_filters", 0, "enforce"), True, origin(spec, "difficulty_filter"))
    return config


def _sources(config: NativeConfig, request: CompileRequest) -> None:
    spec = request.spec
    for index, source in enumerate(spec.environments):
        environment, key = request.environment(source), f"environments[{index}]"
        if environment.generation == "v1":
            config.put(("env", index, "taskset", "id"), environment.hub, origin(spec, f"{key}.id"))
            for name, value in source.settings.items():
                config.put(("env", index, "taskset", name), value, origin(spec, f"{key}.taskset.{name}"))
            if source.harness is not None:
                config.put(("env", index, "harness"), dict(source.harness), origin(spec, f"{key}.harness"))
        else:
            config.put(("env", index, "id"), environment.hub, origin(spec, f"{key}.id"))
            if source.settings:
                config.put(("env", index, "args"), dict(source.settings), origin(spec, f"{key}.args"))
        config.put(("env", index, "version"), environment.version or None, "the registry's version")
        config.put(("env", index, "name"), source.name, origin(spec, f"{key}.name"))
        config.put(("env", index, "ratio"), source.ratio, origin(spec, f"{key}.ratio"))
        if environment.generation == "v1":
            config.put(("env", index, "group_size"), source.group_size, origin(spec, key))
        config.put(("env", index, "max_turns"), source.max_turns, origin(spec, f"{key}.max_turns"))


def _evaluation(config: NativeConfig, request: CompileRequest) -> None:
    spec = request.spec
    if spec.eval is None:
        return
    config.put("eval.interval", spec.eval.interval, origin(spec, "eval.interval"))
    config.put("eval.num_examples", spec.eval.tasks, origin(spec, "eval.tasks"))
    config.put("eval.rollouts_per_example", spec.eval.rollouts, origin(spec, "eval.rollouts"))
    config.put("eval.skip_first_step", spec.eval.skip_first or None, origin(spec, "eval.skip_first"))
    for index, source in enumerate(spec.evaluated):
        environment, settings = request.environment(source), request.evaluation_settings(source)
        at: tuple[str | int, ...] = ("eval", "env", index)
        if environment.generation == "v1":
            config.put((*at, "taskset", "id"), environment.hub, origin(spec, "eval.environments"))
            for name, value in settings.items():
                config.put((*at, "taskset", name), value, origin(spec, "eval.environments"))
        else:
            config.put((*at, "id"), environment.hub, origin(spec, "eval.environments"))
            if settings:
                config.put((*at, "args"), dict(settings), origin(spec, "eval.environments"))


def _settings(spec: RunSpec, native: Mapping[str, Any]) -> TrainerSettings:
    """The settings; each environment has its own size of groups."""
    found = settings_at(PATHS, LIMITS)(spec, native)
    groups = {source.label: source.group_size or found.groups[source.label] for source in spec.environments}
    return replace(found, groups=groups)


TRAINER = Trainer(
    limits=LIMITS,
    started_by="nothing: retired on 2026-10-05, compiled for prime up to 0.12.0",
    compile=_compile,
    settings=_settings,
)
