"""verifiers' own RLTrainer, last released in verifiers[rl]==0.1.9.post3: `vf-train @ X.toml`."""

from __future__ import annotations

import math

from envwright.rules.runs.subject import TrainerLimits
from envwright.training.trainers.launch_script import LaunchScript
from envwright.training.trainers.native_config import NativeConfig, origin, toml_text
from envwright.training.trainers.trainer import (
    Compiled,
    CompileError,
    CompileRequest,
    KeptFolders,
    Trainer,
    file_path,
    group_origin,
    heading,
    refuses_unknown,
    saved_every,
    settings_at,
    whole_alpha,
    with_overrides,
)

RELEASE = "verifiers[rl]==0.1.9.post3"
LIMITS = TrainerLimits(
    name="verifiers-rl",
    title="verifiers' own RLTrainer (legacy)",
    generations=("v0",),
    releases=("0.1.9.post3",),
    released="0.1.9.post3 alone, with the extra rl",
    batch_unit="rollouts",
    lora="either",
    algorithms=("grpo",),
    evaluates="none",
    source="read: last in verifiers[rl]==0.1.9.post3; removed from the repository in a497ee524 (2026-07-08)",
    replaces_groups=False,
)
PATHS = {
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
}


METRICS = {"kl": ("mismatch_kl",), "length": ("tokens/completion",)}
"""In recorded/verifiers_rl.json; `reward`, `reward/std`, `entropy` and `grad_norm` are this tool's names too."""
MOST_MICRO_BATCH = 8


def _compile(request: CompileRequest) -> Compiled:
    """The TOML of vf-rl, and the script that creates its virtual environment."""
    config = with_overrides(_config(request), request.spec)
    path, legacy = file_path(request, "toml"), f"Legacy: {RELEASE} is the last release with this trainer."
    about = "On a Linux machine with two GPUs and tmux: vf-rl starts vLLM and the trainer there."
    script = LaunchScript(request, LIMITS.title, "", about)
    script.create_environment()
    script.install(f"'{RELEASE}'")
    script.note_start()
    # tmux starts `uv run` in --cwd, where uv finds the folder .venv, also without these variables.
    program = f'"$VENV/bin/vf-rl" @ "$PWD/{path}" --cwd "$(dirname "$VENV")"'
    text = toml_text(config, heading(request, LIMITS.title, f"vf-rl @ {path}", legacy))
    return script.compiled(config, program, files={path: text})


def _config(request: CompileRequest) -> NativeConfig:
    spec, source, config = request.spec, request.only_source(), NativeConfig()
    config.place("model", spec, "model")
    config.put("env.id", request.environment(source).id, origin(spec, "environments[0].id"))
    config.put("env.args", dict(source.settings) or None, origin(spec, "environments[0].args"))
    config.place("inference.gpus", spec, "gpus.inference")
    config.place("inference.args.max_model_len", spec, "seq_len")
    if spec.gpus.tensor_parallel > 1:
        config.place("inference.args.tensor_parallel_size", spec, "gpus.tensor_parallel")
    config.place("trainer.gpus", spec, "gpus.train")
    if spec.batch_size % spec.gpus.train:
        raise CompileError(f"batch_size {spec.batch_size} is not a multiple of {spec.gpus.train} GPUs that train")
    micro = math.gcd(spec.batch_size // spec.gpus.train, MOST_MICRO_BATCH)
    arguments = {
        "run_name": (spec.name, "the run's name"),
        "max_steps": (spec.max_steps, origin(spec, "max_steps")),
        "batch_size": (spec.batch_size, origin(spec, "batch_size", "rollouts per step")),
        # verifiers 0.1.9.post3, rl/trainer/config.py: it divides the batch of one GPU, or the trainer stops
        "micro_batch_size": (micro, "divides the rollouts of one GPU"),
        "rollouts_per_example": (spec.group_of(source), group_origin(spec)),
        "learning_rate": (spec.learning_rate, origin(spec, "learning_rate")),
        "weight_decay": (spec.weight_decay, origin(spec, "weight_decay")),
        "max_seq_len": (spec.seq_len, origin(spec, "seq_len")),
        "max_concurrent": (spec.max_concurrent, origin(spec, "max_concurrent")),
        "max_tokens": (spec.sampling.max_tokens, origin(spec, "sampling.max_tokens")),
        "temperature": (spec.sampling.temperature, origin(spec, "sampling.temperature")),
        "use_lora": (spec.lora is not None, origin(spec, "lora")),
        "lora_rank": (spec.lora.rank if spec.lora else None, origin(spec, "lora.rank")),
        "lora_alpha": (whole_alpha(spec), origin(spec, "lora.alpha")),
        "save_strategy": ("steps", "saves the last step as well"),
        "save_steps": (saved_every(spec), origin(spec, "checkpoints.interval")),
        "save_total_limit": (spec.checkpoints.keep if spec.checkpoints else None, origin(spec, "checkpoints.keep")),
        "resume_from_checkpoint": (spec.resume.folder if spec.resume else None, origin(spec, "resume.folder")),
        "report_to": ("wandb" if spec.wandb else "none", origin(spec, "wandb")),
    }
    for name, (value, comment) in arguments.items():
        config.put(f"trainer.args.{name}", value, comment)
    if spec.eval is not None:
        config.left_out.append("eval: this trainer evaluates nothing while it trains; use `envwright distribution`")
    if spec.difficulty_filter:
        config.left_out.append("difficulty_filter: this trainer has none")
    return config


TRAINER = Trainer(
    limits=LIMITS,
    started_by="the compiled script",
    compile=_compile,
    settings=settings_at(PATHS, LIMITS),
    refusals=refuses_unknown("verifiers_rl", "settings", at="trainer.args"),
    metrics=METRICS,
    keeps="every checkpoint and the last step: `outputs/RUN/checkpoint-N`, until you delete them",
    kept=KeptFolders(steps="checkpoint-{step}", written_last="trainer_state.json"),
)
