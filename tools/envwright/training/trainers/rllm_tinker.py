"""rLLM on Tinker: rLLM's unified trainer with its verifiers workflow, through an entry module that this tool writes.

rLLM's own example imports the trainer that lost Tinker in 9b9e3582 and stops at an assertion.
"""

from __future__ import annotations

from envwright.rules.runs.subject import TrainerLimits
from envwright.training.trainers.launch_script import LaunchScript
from envwright.training.trainers.native_config import NativeConfig, arguments_of, hydra_value, origin
from envwright.training.trainers.tinker import TINKER_RENDERERS, TINKER_URL
from envwright.training.trainers.trainer import (
    Compiled,
    CompileRequest,
    KeptAddresses,
    Trainer,
    advantage_of,
    file_path,
    group_origin,
    place_logger,
    refuses_unknown,
    saved_every,
    settings_at,
    with_overrides,
)

ADVANTAGES = {"grpo": "grpo", "rloo": "rloo", "reinforce": "reinforce"}
NEW_KEYS = ("verifiers",)
ENTRY = '''\
"""Starts rLLM's unified trainer on a verifiers environment; written by `envwright train compile`."""

import hydra
import verifiers as vf
from examples.verifiers_env.workflow import VerifiersWorkflow
from omegaconf import OmegaConf
from rllm.data.dataset import DatasetRegistry
from rllm.trainer import AgentTrainer


@hydra.main(config_path="pkg://rllm.trainer.config", config_name="unified", version_base=None)
def main(config):
    chosen = OmegaConf.to_container(config.verifiers, resolve=True)
    environment = vf.load_environment(chosen["env_id"], **chosen.get("env_args", {}))
    name, most = chosen["dataset"], chosen.get("max_samples", -1)
    trainer = AgentTrainer(
        workflow_class=VerifiersWorkflow,
        workflow_args={"vf_env": environment, "sampling_args": chosen.get("sampling_args", {})},
        train_dataset=DatasetRegistry.register_dataset(name, environment.get_dataset(n=most), "train"),
        val_dataset=DatasetRegistry.register_dataset(name, environment.get_eval_dataset(n=most), "test"),
        config=config,
        backend=config.rllm.backend,
    )
    trainer.train()


if __name__ == "__main__":
    main()
'''
LIMITS = TrainerLimits(
    name="rllm-tinker",
    title="rLLM on Tinker",
    generations=("v0",),
    releases=("0.1.9.post3",),
    released="0.1.9.post3",
    batch_unit="tasks",
    lora="only",
    algorithms=tuple(ADVANTAGES),
    source="measured: its exact calls on 0.1.8.post2 to 0.3.1; from 0.1.10 on it fails; "
    "its own train.py cannot start Tinker since 9b9e3582, so the entry module is written here",
    models=TINKER_RENDERERS,
)
PATHS = {
    "batch": "rllm.data.train_batch_size",
    "group": "training.group_size",
    "max_tokens": "rllm.data.max_response_length",
    "temperature": "rllm.rollout.train.temperature",
    "seq_len": "training.max_length",
    "max_steps": "rllm.trainer.total_batches",
    "interval": "rllm.trainer.test_freq",
    "learning_rate": "training.learning_rate",
    "lora_rank": "model.lora_rank",
}
METRICS = {
    "reward": ("reward/verifiers/mean",),
    "reward_std": ("reward/verifiers/std",),
    "reward_max": ("reward/verifiers/max",),
    "kl": ("train/kl_sample_train_v2",),
    "entropy": ("train/entropy",),
    "learning_rate": ("progress/lr",),
    "eval": ("val/reward/verifiers/mean",),
}
"""In recorded/rllm.json; `verifiers` is the name of a trajectory in examples/verifiers_env/workflow.py@9beb6e0."""


def _compile(request: CompileRequest) -> Compiled:
    """The overrides, the entry module, and the script that starts it."""
    tasks = request.tasks_per_step(request.only_source())
    config = with_overrides(_config(request, tasks), request.spec)
    entry, about = file_path(request, "py"), "With rLLM installed from its checkout (extra tinker), in its own .venv."
    script = LaunchScript(request, LIMITS.title, "RLLM=/where/rllm/is TINKER_API_KEY=…", about)
    script.try_first(f"+verifiers.max_samples={2 * tasks}", "rllm.trainer.total_epochs=1")
    script.need("TINKER_API_KEY")
    script.use_checkout("RLLM", "rLLM", "uv venv && uv pip install -e .[tinker]")
    script.install("'verifiers==0.1.9.post3'")
    script.note_start()
    script.keep_output()
    script.lines.append('export PYTHONPATH="$RLLM${PYTHONPATH:+:$PYTHONPATH}"')
    program = f'"$VENV/bin/python" {entry}'
    arguments = {"rllm/backend=tinker": "fixed", **arguments_of(config, hydra_value, NEW_KEYS)}
    files = {entry: ENTRY}
    return script.compiled(config, program, arguments, "TINKER_API_KEY", files=files, batch=PATHS["batch"])


def _config(request: CompileRequest, tasks: int) -> NativeConfig:
    spec, source, config = request.spec, request.only_source(), NativeConfig()
    group, limit = spec.group_of(source), spec.sampling.max_tokens
    config.put("verifiers.env_id", request.environment(source).id, origin(spec, "environments[0].id"))
    config.put("verifiers.dataset", spec.name, "rLLM stores data by name: the run's name avoids collisions")
    config.put("verifiers.env_args", dict(source.settings) or None, origin(spec, "environments[0].args"))
    config.put("verifiers.sampling_args.max_tokens", limit, origin(spec, "sampling.max_tokens"))
    config.place("verifiers.sampling_args.temperature", spec, "sampling.temperature")
    config.place("model.name", spec, "model")
    config.place("model.lora_rank", spec, "lora.rank")
    config.put("training.group_size", group, group_origin(spec))
    config.place("training.learning_rate", spec, "learning_rate")
    config.place("training.max_length", spec, "seq_len")
    config.put("training.default_local_dir", f"outputs/{spec.name}", "checkpoints")
    if spec.resume is not None and spec.resume.folder:
        config.put("training.resume_mode", "resume_path", origin(spec, "resume.folder"))
        config.place("training.resume_from_path", spec, "resume.folder")
    evaluated = spec.eval
    config.put("validation.group_size", evaluated.rollouts if evaluated else 1, origin(spec, "eval.rollouts"))
    note = f"tasks: {spec.batch_size} rollouts / {group}"
    config.put("rllm.data.train_batch_size", tasks, origin(spec, "batch_size", note))
    prompt = max(1, spec.seq_len - limit)
    config.put("rllm.data.max_prompt_length", prompt, origin(spec, "seq_len", "less sampling.max_tokens"))
    config.put("rllm.data.max_response_length", limit, origin(spec, "sampling.max_tokens"))
    config.place("rllm.rollout.train.temperature", spec, "sampling.temperature")
    config.put("rllm.algorithm.adv_estimator", advantage_of(spec, ADVANTAGES), origin(spec, "algorithm"))
    config.put("rllm.workflow.use_workflow", True, "verifiers runs as a workflow")
    config.place("rllm.workflow.n_parallel_tasks", spec, "max_concurrent")
    config.place("rllm.trainer.total_batches", spec, "max_steps")
    config.put("rllm.trainer.total_epochs", spec.max_steps, "at most one per step: the batches decide")
    place_logger(config, spec, "rllm.trainer")
    # with -1 rLLM saves nothing at the end either: 9beb6e0, trainer/tinker/tinker_backend.py, on_train_end
    config.put("rllm.trainer.save_freq", saved_every(spec), origin(spec, "checkpoints.interval", "and the last step"))
    config.put("rllm.trainer.test_freq", evaluated.interval if evaluated else -1, origin(spec, "eval.interval"))
    first = evaluated is not None and not evaluated.skip_first
    config.put("rllm.trainer.val_before_train", first, origin(spec, "eval.skip_first"))
    if spec.difficulty_filter:
        config.place("rllm.rejection_sample.enable", spec, "difficulty_filter")
        config.place("rllm.rejection_sample.filter_uniform_groups", spec, "difficulty_filter")
    if spec.lora is not None and spec.declares("lora.alpha"):
        config.left_out.append("lora.alpha: Tinker chooses it")
    return config


TRAINER = Trainer(
    limits=LIMITS,
    started_by="the compiled script and entry module, in a checkout",
    compile=_compile,
    settings=settings_at(PATHS, LIMITS, suffixes=True),
    refusals=refuses_unknown("rllm", "settings on Tinker", new=NEW_KEYS),
    metrics=METRICS,
    # trainer/algorithms/advantage.py@9beb6e0; the trainer of verl alone logs batch/solve_all and solve_none
    zero_variance=("batch/[^/]+/fractions/too_easy", "batch/[^/]+/fractions/too_hard"),
    # trainer/tinker/tinker_policy_trainer.py@9beb6e0, save_checkpoint_and_get_sampling_client: no ttl_seconds
    keeps="every checkpoint and the last step, on Tinker, without expiry; addresses in "
    "`outputs/RUN/global_step_N/checkpoint.json`",
    kept=KeptAddresses("global_step_*/checkpoint.json", TINKER_URL, "TINKER_API_KEY"),
)
