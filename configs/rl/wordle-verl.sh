#!/usr/bin/env bash
# Run wordle-verl for rLLM on verl: RLLM=/where/rllm/is configs/rl/wordle-verl.sh
# Compiled from registry.yaml (runs.wordle-verl) by `envwright train compile`; do not edit by hand.
# On the machine that trains, with rLLM installed from its checkout (extra verl), in its own .venv.
# A first try, of two steps: bash configs/rl/wordle-verl.sh data.train_max_samples=32 trainer.total_epochs=1 trainer.save_freq=1
# Arguments of this script are passed on to the trainer.
set -euo pipefail
: "${RLLM:?the folder of a checkout of rLLM}"
RLLM=$(cd "$RLLM" && pwd)
VENV="$RLLM/.venv"
[ -x "$VENV/bin/python" ] || { echo "$VENV does not exist; in $RLLM run: uv venv && uv pip install -e .[verl]" >&2; exit 2; }
export VIRTUAL_ENV="$VENV" UV_PROJECT_ENVIRONMENT="$VENV"
uv pip install --python "$VENV/bin/python" 'verifiers==0.1.9.post3'
LOCKED="$VENV/locked.txt"
"$VENV/bin/python" -c "import re, sys; from importlib.metadata import distributions as all; found = {f'{each.name}=={each.version}' for each in all() if re.sub('[-_.]+', '-', each.name).lower() not in sys.argv[1:]}; print(*sorted(found), sep='\n')" wordle > "$LOCKED"
UV_OVERRIDE="$LOCKED" prime env install primeintellect/wordle@0.1.8  # exits with 0 also when it fails
[ "$("$VENV/bin/python" -c 'from importlib.metadata import version; print(version("wordle"))')" = 0.1.8 ] || { echo "primeintellect/wordle@0.1.8 was not installed into $VENV" >&2; exit 1; }
CHECK=$(uv pip check --python "$VENV/bin/python" 2>&1) || [ $? -eq 1 ] || { echo "$CHECK" >&2; exit 1; }
UNMET=$(grep -F -e '`wordle` requires' <<<"$CHECK") && echo "$UNMET" >&2
if grep -v 'requires `verifiers' <<<"$UNMET" | grep -q .; then
  echo "a version that differs is the trainer's: the environment needs another release or trainer" >&2
  exit 1
fi
"$VENV/bin/python" -c "import wordle"
mkdir -p outputs
{ [[ " $* " == *" --clean "* && " $* " != *" --resume"* ]] || [ ! -d outputs/wordle-verl ]; } && rm -f outputs/wordle-verl.commit.txt
[ -s outputs/wordle-verl.commit.txt ] || { git rev-parse --verify HEAD && git status --porcelain -- registry.yaml environments; } > outputs/wordle-verl.commit.txt || true
mkdir -p outputs/wordle-verl
exec > >(tee -a outputs/wordle-verl/console.log) 2>&1
cd "$RLLM"

arguments=(
  +verifiers.env_id=wordle                               # runs.wordle-verl.environments[0].id
  +verifiers.sampling_args.max_tokens=1024               # runs.wordle-verl.sampling.max_tokens
  +verifiers.sampling_args.temperature=1.0               # default of sampling.temperature
  algorithm.adv_estimator=grpo                           # default of algorithm
  data.train_batch_size=16                               # runs.wordle-verl.batch_size; tasks: 128 rollouts / 8
  data.max_prompt_length=3072                            # default of seq_len; less sampling.max_tokens
  data.max_response_length=1024                          # runs.wordle-verl.sampling.max_tokens
  actor_rollout_ref.model.path=Qwen/Qwen2.5-1.5B-Instruct # runs.wordle-verl.model
  actor_rollout_ref.model.lora_rank=16                   # runs.wordle-verl.lora.rank
  actor_rollout_ref.model.lora_alpha=32                  # runs.wordle-verl.lora.alpha
  actor_rollout_ref.actor.optim.lr=1e-05                 # runs.wordle-verl.learning_rate
  actor_rollout_ref.actor.optim.weight_decay=0.0         # default of weight_decay
  actor_rollout_ref.actor.ppo_mini_batch_size=16         # runs.wordle-verl.batch_size; one update per step
  actor_rollout_ref.actor.use_dynamic_bsz=true           # sequences differ in length; no micro batch to tune
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096 # default of seq_len
  actor_rollout_ref.rollout.name=vllm                    # fixed
  actor_rollout_ref.rollout.mode=async                   # verifiers sends requests over HTTP
  actor_rollout_ref.rollout.n=8                          # runs.wordle-verl.group_size
  actor_rollout_ref.rollout.temperature=1.0              # default of sampling.temperature
  actor_rollout_ref.rollout.tensor_model_parallel_size=1 # default of gpus.tensor_parallel
  actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1 # fixed
  rllm.workflow.use_workflow=true                        # the example is a workflow
  trainer.total_training_steps=101                       # runs.wordle-verl.max_steps; and one: rLLM ends before this step
  trainer.total_epochs=100                               # at most one per step: the steps decide
  trainer.n_gpus_per_node=1                              # default of gpus.train
  trainer.nnodes=1                                       # default of gpus.train_nodes
  trainer.project_name=envwright                         # default of wandb.project
  trainer.experiment_name=wordle-verl                    # the run's name
  'trainer.logger=[console]'                             # default of wandb
  trainer.default_local_dir=outputs/wordle-verl          # checkpoints
  trainer.save_freq=50                                   # runs.wordle-verl.checkpoints.interval; divides max_steps: rLLM saves no last step of its own
  trainer.test_freq=-1                                   # default of eval.interval
  trainer.val_before_train=false                         # default of eval.skip_first
)

exec "$VENV/bin/python" -m examples.verifiers_env.train "${arguments[@]}" "$@"
