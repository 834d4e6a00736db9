"""tinker-cookbook's recipe for verifiers environments: one command, settings as key=value."""

from __future__ import annotations

import json

from envwright.rules.runs.subject import TrainerLimits
from envwright.training.trainers.launch_script import LaunchScript
from envwright.training.trainers.native_config import NativeConfig, arguments_of, origin
from envwright.training.trainers.trainer import (
    KNOWN_MODELS,
    Compiled,
    CompileRequest,
    KeptAddresses,
    Trainer,
    group_origin,
    refuses_unknown,
    saved_every,
    settings_at,
    with_overrides,
)

TINKER_RENDERERS: dict[str, str] = KNOWN_MODELS["tinker-cookbook"]["models"]
"""Models of Tinker and the renderer that tinker-cookbook recommends; Tinker refuses others."""
COOKBOOK = "0.6.1"
"""The release whose parser and recipe the compiled arguments were checked with."""
VERIFIERS = "0.1.9.post3"
TINKER_URL = "https://tinker.thinkingmachines.dev/services/tinker-prod/oai/api/v1"
"""Serves `tinker://` addresses of sampler weights: DEFAULT_BASE_URL (tinker/lib/base_url.py of 0.38.0) and the path of
Tinker's OpenAI-compatible API, which only its documentation has; not tried."""
RENDERERS = "tml-renderers"
"""Its bound on this package, which only Thinking Machines' own models load, is lifted: not every index has 0.4.1."""
MODULE = "tinker_cookbook.recipes.verifiers_rl.train"
LIMITS = TrainerLimits(
    name="tinker",
    title="tinker-cookbook",
    generations=("v0",),
    releases=(VERIFIERS,),
    released="0.1.9.post3",
    batch_unit="tasks",
    lora="only",
    algorithms=("grpo",),
    source="measured: its exact calls on 0.1.8.post2 to 0.3.1; from 0.1.10 on it fails (run_group's signature); "
    "recipe verifiers_rl of tinker-cookbook 0.6.1, which requires verifiers >=0.1.9,<0.1.10",
    evaluates="none",
    replaces_groups=False,
    models=TINKER_RENDERERS,
)
PATHS = {
    "batch": "groups_per_batch",
    "group": "group_size",
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "max_steps": "max_steps",
    "interval": "eval_every",
    "learning_rate": "learning_rate",
    "lora_rank": "lora_rank",
}
METRICS = {
    "reward": ("env/all/reward/total",),
    "kl": ("optim/kl_sample_train_v2",),
    "entropy": ("optim/entropy",),
    "learning_rate": ("optim/lr",),
    "length": ("env/all/ac_tokens_per_turn",),
    "eval": ("test/env/all/reward/total",),
}
"""Source: tinker_cookbook/rl/train.py, rl/metrics.py and rl/metric_util.py of 0.6.1."""


def _compile(request: CompileRequest) -> Compiled:
    """The recipe's own arguments, in a script that names the origin of each."""
    config = with_overrides(_config(request), request.spec)
    script = LaunchScript(request, LIMITS.title, "TINKER_API_KEY=…")
    script.need("TINKER_API_KEY")
    script.create_environment()
    overrides = f"--overrides <(echo {RENDERERS})"
    script.install(overrides, f"'tinker-cookbook[verifiers]=={COOKBOOK}'", f"'verifiers=={VERIFIERS}'")
    script.note_start()
    program, arguments = f'"$VENV/bin/python" -m {MODULE}', arguments_of(config, str)  # as chz reads values
    return script.compiled(config, program, arguments, "TINKER_API_KEY", batch=PATHS["batch"])


def _config(request: CompileRequest) -> NativeConfig:
    spec, source, config = request.spec, request.only_source(), NativeConfig()
    tasks = request.tasks_per_step(source)
    config.place("model_name", spec, "model")
    renderer = spec.renderer or TINKER_RENDERERS.get(spec.model)
    recommended = "recommended by model_info; the recipe's default is Qwen3.5's"
    config.put("renderer_name", renderer, origin(spec, "renderer") if spec.renderer else recommended)
    config.place("lora_rank", spec, "lora.rank")
    config.put("vf_env_id", request.environment(source).id, origin(spec, "environments[0].id"))
    if source.settings:
        text = json.dumps(source.settings, ensure_ascii=False, sort_keys=True)
        config.put("vf_env_args", text, origin(spec, "environments[0].args"))
    config.put("group_size", spec.group_of(source), group_origin(spec))
    note = f"tasks: {spec.batch_size} rollouts / {spec.group_of(source)}"
    config.put("groups_per_batch", tasks, origin(spec, "batch_size", note))
    config.place("learning_rate", spec, "learning_rate")
    config.place("max_tokens", spec, "sampling.max_tokens")
    config.place("temperature", spec, "sampling.temperature")
    config.place("max_steps", spec, "max_steps")
    config.place("max_concurrent_generation", spec, "max_concurrent")
    config.put("save_every", saved_every(spec), origin(spec, "checkpoints.interval", "kept for 7 days"))
    if spec.checkpoints is not None and spec.checkpoints.keep is not None:
        config.left_out.append("checkpoints.keep: Tinker removes each checkpoint after 7 days, the last one never")
    config.place("eval_every", spec, "eval.interval")
    if spec.eval is not None:
        config.left_out.append("eval: the recipe makes no evaluation set, so nothing is evaluated")
    config.put("log_path", f"outputs/{spec.name}", "contains metrics.jsonl, for `envwright watch`")
    config.put("behavior_if_log_dir_exists", "resume", "resumes when started again")
    if spec.wandb is not None:
        config.place("wandb_project", spec, "wandb.project")
        config.put("wandb_name", spec.name, "the run's name")
    if spec.lora is not None and spec.declares("lora.alpha"):
        config.left_out.append("lora.alpha: Tinker chooses it")
    config.left_out.append(f"seq_len = {spec.seq_len}: Tinker uses that of the model")
    return config


TRAINER = Trainer(
    limits=LIMITS,
    started_by="the compiled script",
    compile=_compile,
    settings=settings_at(PATHS, LIMITS, suffixes=True),
    refusals=refuses_unknown("tinker", "arguments"),
    metrics=METRICS,
    # tinker_cookbook/checkpoint_utils.py@9dfcc3a2, save_final_async; rl/train.py@9dfcc3a2, Config.ttl_seconds
    keeps="the last step on Tinker, without expiry, and checkpoints for 7 days; addresses in "
    "`outputs/RUN/checkpoints.jsonl`",
    kept=KeptAddresses("checkpoints.jsonl", TINKER_URL, "TINKER_API_KEY"),
    zero_variance=("env/all/by_group/frac_all_good", "env/all/by_group/frac_all_bad"),
)
