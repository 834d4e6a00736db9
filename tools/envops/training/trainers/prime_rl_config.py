"""prime-rl's configuration, for the hosted and the self-managed door alike.

Written from prime-rl at 559b447 (2026-08-21, v0.8.0) and the later schema of autumn 2026,
which spell some settings differently. `portable` uses only what both take; what has no
such spelling is left out and said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops.rules.runs.known_models import RENDERER_OF_MODEL, RENDERERS
from envops.training.trainers.native_config import NativeConfig, origin

if TYPE_CHECKING:
    from envops.repository.run import Evaluation, RunSpec, Source
    from envops.training.trainers.trainer import Request

NULL_HARNESS = {"id": "null"}
SUBPROCESS = {"type": "subprocess"}


def prime_rl_config(request: Request, *, hosted: bool) -> NativeConfig:
    """The run as an `RLConfig`, overrides not yet merged in."""
    spec, config = request.spec, NativeConfig()
    if hosted and request.name:
        config.put("name", request.name, "digest of spec and environments, and the commit: found again by it")
    if hosted and spec.gpus.type:
        config.put("gpu_type", spec.gpus.type, origin(spec, "gpus.type"))
    config.put("max_steps", spec.max_steps, origin(spec, "max_steps"))
    config.put("seq_len", spec.seq_len, origin(spec, "seq_len", "of trainer and orchestrator"))
    if not hosted:
        config.put("run.name", request.name or spec.name, "the run's name; the folder below outputs/")
    config.put("model.name", spec.model, origin(spec, "model"))
    _deployment(config, spec, hosted=hosted)
    _checkpoints(config, spec, hosted=hosted)
    _wandb(config, spec)
    config.table("trainer")
    _trainer(config, spec)
    _orchestrator(config, request, hosted=hosted)
    config.table("inference")
    if spec.gpus.tensor_parallel > 1:
        path, key = "inference.vllm.tensor_parallel_size", "gpus.tensor_parallel"
        config.put(path, spec.gpus.tensor_parallel, origin(spec, key))
    return config


def _deployment(config: NativeConfig, spec: RunSpec, *, hosted: bool) -> None:
    gpus = spec.gpus
    if gpus.multi_node:
        config.put("deployment.type", "multi_node", origin(spec, "gpus.train_nodes"))
        config.put("deployment.num_train_nodes", gpus.train_nodes or 1, origin(spec, "gpus.train_nodes"))
        config.put("deployment.num_infer_nodes", gpus.inference_nodes or 1, origin(spec, "gpus.inference_nodes"))
    else:
        config.put("deployment.num_train_gpus", gpus.train, origin(spec, "gpus.train"))
        config.put("deployment.num_infer_gpus", gpus.inference, origin(spec, "gpus.inference"))
    if spec.says("gpus.per_node"):
        config.put("deployment.gpus_per_node", gpus.per_node, origin(spec, "gpus.per_node"))
    if spec.slurm is not None or (gpus.multi_node and not hosted):
        config.table("slurm")
        for key, value in (spec.slurm or {"job_name": spec.name}).items():
            config.put(("slurm", key), value, origin(spec, "slurm"))


def _checkpoints(config: NativeConfig, spec: RunSpec, *, hosted: bool) -> None:
    kept = spec.checkpoints
    if kept is not None:
        config.table("ckpt")
        config.put("ckpt.interval", kept.interval, origin(spec, "checkpoints.interval"))
        config.put("ckpt.keep_last", kept.keep, origin(spec, "checkpoints.keep"))
    if spec.resume is not None:
        config.put("resume.step", spec.resume.step, origin(spec, "resume.step"))
        config.put("resume.dir", spec.resume.folder, origin(spec, "resume.folder"))
        if spec.resume.run and not hosted:
            config.left_out.append("resume.run: a checkpoint of the platform; give resume.folder here")


def _wandb(config: NativeConfig, spec: RunSpec) -> None:
    if spec.wandb is None:
        return
    for key in ("project", "entity", "group"):
        config.put(f"monitors.wandb.{key}", getattr(spec.wandb, key), origin(spec, f"wandb.{key}"))
    if spec.wandb.tags:
        config.put("monitors.wandb.tags", list(spec.wandb.tags), origin(spec, "wandb.tags"))


def _trainer(config: NativeConfig, spec: RunSpec) -> None:
    if spec.gpus.context_parallel > 1:
        config.put("trainer.model.cp", spec.gpus.context_parallel, origin(spec, "gpus.context_parallel"))
    if spec.lora is not None:
        config.put("trainer.model.lora.rank", spec.lora.rank, origin(spec, "lora.rank"))
        config.put("trainer.model.lora.alpha", spec.lora.alpha, origin(spec, "lora.alpha"))
    config.put("trainer.optim.lr", spec.learning_rate, origin(spec, "learning_rate"))
    note = "written out: prime-rl's own default changed"
    config.put("trainer.optim.weight_decay", spec.weight_decay, origin(spec, "weight_decay", note))


def _orchestrator(config: NativeConfig, request: Request, *, hosted: bool) -> None:
    spec = request.spec
    config.put("orchestrator.batch_size", spec.batch_size, origin(spec, "batch_size", "rollouts per step"))
    config.put(
        "orchestrator.max_off_policy_steps", spec.max_off_policy_steps, origin(spec, "max_off_policy_steps", "steps")
    )
    if spec.max_concurrent is not None:
        path = "orchestrator.concurrency"
        config.put(f"{path}.max_inflight", spec.max_concurrent, origin(spec, "max_concurrent", "rollouts"))
    _renderer(config, spec)
    sampling = "orchestrator.train.sampling"
    config.put(f"{sampling}.temperature", spec.sampling.temperature, origin(spec, "sampling.temperature"))
    limit = origin(spec, "sampling.max_tokens", "of one reply")
    config.put(f"{sampling}.max_completion_tokens", spec.sampling.max_tokens, limit)
    for index, source in enumerate(spec.environments):
        _train_source(config, request, index, source, hosted=hosted)
    if spec.eval is not None:
        _evaluation(config, request, spec.eval, hosted=hosted)


def _renderer(config: NativeConfig, spec: RunSpec) -> None:
    name, thinking = spec.renderer, spec.sampling.enable_thinking
    if thinking is not None:
        name = name or RENDERER_OF_MODEL.get(spec.model)
        if name is None or "enable_thinking" not in RENDERERS.get(name, ()):
            config.left_out.append(f"sampling.enable_thinking: the renderer of {spec.model} has no such option")
            thinking = None
    if name is not None and (spec.renderer or thinking is not None):
        said = origin(spec, "renderer") if spec.renderer else "that of the model; must be named for its options"
        config.put("orchestrator.renderer.name", name, said)
        enabled = origin(spec, "sampling.enable_thinking")
        config.put("orchestrator.renderer.enable_thinking", thinking, enabled)


def _train_source(config: NativeConfig, request: Request, index: int, source: Source, *, hosted: bool) -> None:
    spec, key = request.spec, f"environments[{index}]"
    at: tuple[str | int, ...] = ("orchestrator", "train", "source", index)
    config.put((*at, "name"), source.label, origin(spec, f"{key}.name" if source.name else f"{key}.id"))
    config.put((*at, "ratio"), source.ratio, origin(spec, f"{key}.ratio"))
    own = source.rollouts_per_example is not None
    size = f"{key}.rollouts_per_example" if own else "rollouts_per_example"
    config.put((*at, "group_size"), spec.group_size(source), origin(spec, size, "rollouts of each task"))
    _environment(config, request, at, source, key, hosted=hosted)
    config.put((*at, "algo", "type"), spec.algorithm, origin(spec, "algorithm"))
    if spec.difficulty_filter:
        _difficulty_filter(config, spec, at)


def _difficulty_filter(config: NativeConfig, spec: RunSpec, at: tuple[str | int, ...]) -> None:
    said = origin(spec, "difficulty_filter", "groups without variance are refilled")
    if spec.schema == "august":
        config.put((*at, "curriculum", "gates", "no_signal", "type"), "advantage_range", said)
    elif spec.schema == "later":
        config.put((*at, "min_abs_advantage"), 0.0, said)
    else:
        line = "difficulty_filter: gates (august) and min_abs_advantage (later) differ; name the schema"
        if line not in config.left_out:
            config.left_out.append(line)


def _environment(
    config: NativeConfig, request: Request, at: tuple[str | int, ...], source: Source, key: str, *, hosted: bool
) -> None:
    spec, environment = request.spec, request.environment(source)
    taskset = environment.hub if hosted or environment.external else environment.name
    where = "the Hub's" if taskset == environment.hub else "the package installed beside prime-rl"
    config.put((*at, "env", "taskset", "id"), taskset, origin(spec, f"{key}.id", where))
    for name, value in source.settings.items():
        config.put((*at, "env", "taskset", name), value, origin(spec, f"{key}.taskset.{name}"))
    for name, value in (source.harness or NULL_HARNESS).items():
        config.put((*at, "env", "agent", "harness", name), value, origin(spec, f"{key}.harness"))
    for name, value in (source.runtime or SUBPROCESS).items():
        note = "" if source.runtime else "prime-rl's own default is a paid sandbox"
        config.put((*at, "env", "agent", "runtime", name), value, origin(spec, f"{key}.runtime", note))
    config.put((*at, "env", "agent", "max_turns"), source.max_turns, origin(spec, f"{key}.max_turns"))


def _evaluation(config: NativeConfig, request: Request, evaluated: Evaluation, *, hosted: bool) -> None:
    spec, path = request.spec, "orchestrator.eval"
    config.put(f"{path}.interval", evaluated.interval, origin(spec, "eval.interval", "steps"))
    config.put(f"{path}.group_size", evaluated.rollouts, origin(spec, "eval.rollouts", "rollouts of each task"))
    if evaluated.skip_first:
        config.put(f"{path}.skip_first_step", True, origin(spec, "eval.skip_first"))
    _eval_size(config, spec, evaluated.tasks)
    config.put(f"{path}.sampling.temperature", evaluated.temperature, origin(spec, "eval.temperature"))
    limit = origin(spec, "sampling.max_tokens", "as in training")
    config.put(f"{path}.sampling.max_completion_tokens", spec.sampling.max_tokens, limit)
    said = "eval.environments" if evaluated.environments else "environments"
    for index, source in enumerate(spec.evaluated):
        at: tuple[str | int, ...] = ("orchestrator", "eval", "source", index)
        key = f"{said}[{index}]"
        name = source.label if evaluated.environments else f"{source.label}-eval"
        config.put((*at, "name"), name, origin(spec, f"{key}.id"))
        if evaluated.environments:
            own = origin(spec, f"{key}.rollouts_per_example")
            config.put((*at, "group_size"), source.rollouts_per_example, own)
        _environment(config, request, at, source, key, hosted=hosted)


def _eval_size(config: NativeConfig, spec: RunSpec, tasks: int | None) -> None:
    if tasks is None:
        return
    if spec.schema == "august":
        config.put("orchestrator.eval.num_examples", tasks, origin(spec, "eval.tasks"))
    elif spec.schema == "later":
        config.put("orchestrator.eval.select.limit", tasks, origin(spec, "eval.tasks"))
    else:
        config.left_out.append(
            f"eval.tasks = {tasks}: num_examples (august) and select.limit (later) differ; all tasks are evaluated"
        )
