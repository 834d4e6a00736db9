"""SkyRL's integration of verifiers: a dataset is prepared, then its trainer starts with dotted settings."""

from __future__ import annotations

import math
import shlex

from envwright.declarations.package import folder_of
from envwright.rules.runs.subject import TrainerLimits
from envwright.training.trainers.launch_script import LaunchScript
from envwright.training.trainers.native_config import NativeConfig, arguments_of, dot_list_value, origin
from envwright.training.trainers.trainer import (
    Compiled,
    CompileError,
    CompileRequest,
    Environment,
    KeptFolders,
    Trainer,
    advantage_of,
    group_origin,
    refuses_unknown,
    saved_every,
    settings_at,
    whole_alpha,
    with_overrides,
)

ADVANTAGES = {"grpo": "grpo", "rloo": "rloo", "reinforce": "reinforce++"}
ENTRY = "examples.train_integrations.verifiers.entrypoints.main_verifiers"
PREPARE = "examples/train_integrations/verifiers/prepare_dataset.py"
INSTALLER = "examples/train_integrations/verifiers/install_environment.py"
"""SkyRL's own: it adds the release of the Hub, from its owner's index."""
MOST_MICRO_BATCH = 32
LIMITS = TrainerLimits(
    name="skyrl",
    title="SkyRL",
    generations=("v0",),
    releases=(),
    released="none: it needs RolloutInput (0.1.8 and later) and process_env_results_vllm (0.1.7 and before)",
    batch_unit="tasks",
    lora="either",
    algorithms=tuple(ADVANTAGES),
    source="measured on 0.1.8.post2 to 0.3.1, read for 0.1.5 to 0.1.7; its own test of the integration is skipped",
)
PATHS = {
    "batch": "trainer.train_batch_size",
    "group": "generator.n_samples_per_prompt",
    "max_tokens": "generator.sampling_params.max_generate_length",
    "temperature": "generator.sampling_params.temperature",
    "max_steps": "trainer.max_training_steps",
    "interval": "trainer.eval_interval",
    "learning_rate": "trainer.policy.optimizer_config.lr",
    "lora_rank": "trainer.policy.model.lora.rank",
}
METRICS = {
    "reward": ("reward/avg_raw_reward",),
    "kl": ("policy/policy_kl",),
    "entropy": ("policy/policy_entropy",),
    "grad_norm": ("policy/grad_norm",),
    "learning_rate": ("policy/policy_lr",),
    "length": ("generate/avg_num_tokens",),
    "eval": ("eval/all/avg_score",),
}
"""In recorded/skyrl.json."""


def _compile(request: CompileRequest) -> Compiled:
    """The dotted settings of SkyRLTrainConfig, in a script that prepares the data first."""
    source = request.only_source()
    config = with_overrides(_config(request, request.tasks_per_step(source)), request.spec)
    script = LaunchScript(request, LIMITS.title, "SKYRL=/where/SkyRL/is", f"verifiers: {LIMITS.released}.")
    script.use_checkout("SKYRL", "SkyRL", None)
    script.note_start()
    script.keep_output()
    environment, data = request.environment(source), f"data/{request.spec.name}"
    script.lines += ["ROOT=$PWD", 'cd "$SKYRL"', _add_environment(environment)]
    script.lines.append(f"uv run --with verifiers python {PREPARE} --env_id {environment.id} --output_dir {data}")
    program, arguments = f"uv run --extra fsdp -m {ENTRY}", arguments_of(config, dot_list_value)
    return script.compiled(config, program, arguments, batch=PATHS["batch"])


def _add_environment(environment: Environment) -> str:
    """Shell: the environment as a requirement of SkyRL's project, which its Ray workers install again."""
    if environment.external:
        return f"uv run python {INSTALLER} {shlex.quote(f'{environment.hub}@{environment.version}')}"
    return f'uv add "$ROOT/environments/{folder_of(environment.name)}"'


def _config(request: CompileRequest, tasks: int) -> NativeConfig:
    spec, source, config = request.spec, request.only_source(), NativeConfig()
    group, gpus = spec.group_of(source), spec.gpus
    if source.settings:
        message = "SkyRL's verifiers integration loads an environment by name, without arguments"
        raise CompileError(f"{message}: {', '.join(source.settings)}")
    config.put("data.train_data", [f"data/{spec.name}/train.parquet"], "written by prepare_dataset.py")
    config.put("data.val_data", [f"data/{spec.name}/validation.parquet"], "written by prepare_dataset.py")
    config.put("environment.env_class", request.environment(source).id, origin(spec, "environments[0].id"))
    config.put("trainer.algorithm.advantage_estimator", advantage_of(spec, ADVANTAGES), origin(spec, "algorithm"))
    if spec.difficulty_filter:
        comment = origin(spec, "difficulty_filter", "groups without variance are drawn again")
        config.put("trainer.algorithm.dynamic_sampling.type", "filter", comment)
    policy = "trainer.policy"
    config.place(f"{policy}.model.path", spec, "model")
    config.place(f"{policy}.model.lora.rank", spec, "lora.rank")
    config.put(f"{policy}.model.lora.alpha", whole_alpha(spec), origin(spec, "lora.alpha"))
    config.place(f"{policy}.optimizer_config.lr", spec, "learning_rate")
    config.place(f"{policy}.optimizer_config.weight_decay", spec, "weight_decay")
    per_node = gpus.per_node if gpus.multi_node else gpus.train
    nodes = gpus.train_nodes or 1
    for part in ("policy", "ref"):
        config.put(f"trainer.placement.{part}_num_nodes", nodes, origin(spec, "gpus.train_nodes"))
        config.put(f"trainer.placement.{part}_num_gpus_per_node", per_node, origin(spec, "gpus.train"))
    engines = max(1, nodes * per_node // gpus.tensor_parallel)
    config.put("generator.inference_engine.num_engines", engines, "training and sampling share the GPUs")
    config.place("generator.inference_engine.tensor_parallel_size", spec, "gpus.tensor_parallel")
    note = f"tasks: {spec.batch_size} rollouts / {group}"
    config.put("trainer.train_batch_size", tasks, origin(spec, "batch_size", note))
    config.put("trainer.policy_mini_batch_size", tasks, origin(spec, "batch_size", "one update per step"))
    micro = math.gcd(max(1, spec.batch_size // (nodes * per_node)), MOST_MICRO_BATCH)
    for kind in ("train", "forward"):
        config.put(f"trainer.micro_{kind}_batch_size_per_gpu", micro, "divides the rollouts of one GPU")
    _trainer(config, request)
    _generator(config, request, group)
    return config


def _trainer(config: NativeConfig, request: CompileRequest) -> None:
    spec, kept, evaluated = request.spec, request.spec.checkpoints, request.spec.eval
    config.place("trainer.max_training_steps", spec, "max_steps")
    config.put("trainer.epochs", spec.max_steps, "at most one per step: the steps decide")
    config.put("trainer.eval_interval", evaluated.interval if evaluated else -1, origin(spec, "eval.interval"))
    first = evaluated is not None and not evaluated.skip_first
    config.put("trainer.eval_before_train", first, origin(spec, "eval.skip_first"))
    # with -1 SkyRL saves nothing at the end either; otherwise also after every epoch: a956457, train/trainer.py
    note = "every epoch, and the last step"
    config.put("trainer.ckpt_interval", saved_every(spec), origin(spec, "checkpoints.interval", note))
    last = 1 if kept is None or kept.interval is None else None
    config.put("trainer.max_ckpts_to_keep", (kept and kept.keep) or last, origin(spec, "checkpoints.keep"))
    config.put("trainer.hf_save_interval", saved_every(spec), origin(spec, "checkpoints.interval", "as vLLM loads it"))
    config.put("trainer.export_path", f"outputs/{spec.name}/exports", "models; ~/exports is the trainer's own")
    config.put("trainer.ckpt_path", f"outputs/{spec.name}/checkpoints", "checkpoints")
    if spec.resume is not None and spec.resume.folder:
        config.put("trainer.resume_mode", "from_path", origin(spec, "resume.folder"))
        config.place("trainer.resume_path", spec, "resume.folder")
    config.put("trainer.logger", "wandb" if spec.wandb else "console", origin(spec, "wandb"))
    config.put("trainer.project_name", spec.wandb.project if spec.wandb else "envwright", origin(spec, "wandb.project"))
    config.put("trainer.run_name", spec.name, "the run's name")


def _generator(config: NativeConfig, request: CompileRequest, group: int) -> None:
    spec, limit = request.spec, request.spec.sampling.max_tokens
    prompt = max(1, spec.seq_len - limit)
    config.put("trainer.max_prompt_length", prompt, origin(spec, "seq_len", "less sampling.max_tokens"))
    config.put("generator.max_input_length", prompt, origin(spec, "seq_len", "less sampling.max_tokens"))
    config.put("generator.n_samples_per_prompt", group, group_origin(spec))
    config.put("generator.sampling_params.max_generate_length", limit, origin(spec, "sampling.max_tokens"))
    config.place("generator.sampling_params.temperature", spec, "sampling.temperature")
    config.place("generator.eval_n_samples_per_prompt", spec, "eval.rollouts")
    if spec.eval is not None and spec.eval.temperature is not None:
        config.place("generator.eval_sampling_params.temperature", spec, "eval.temperature")
        config.place("generator.eval_sampling_params.max_generate_length", spec, "sampling.max_tokens")


TRAINER = Trainer(
    limits=LIMITS,
    started_by="the compiled script, in a checkout",
    compile=_compile,
    settings=settings_at(PATHS, LIMITS),
    refusals=refuses_unknown("skyrl", "settings"),
    metrics=METRICS,
    # skyrl/train/trainer.py@a956457, train and save_models; fsdp_strategy.py@a956457: an export appears whole
    keeps="every checkpoint and the last step, below `$SKYRL/outputs/RUN`: shards in `checkpoints/global_step_N`, "
    "models in `exports/global_step_N/policy`, until you delete them",
    kept=KeptFolders(steps="exports/global_step_{step}/policy", checkout="SKYRL"),
)
