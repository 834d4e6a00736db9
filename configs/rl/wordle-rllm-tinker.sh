#!/usr/bin/env bash
# Run wordle-rllm-tinker for rLLM on Tinker: RLLM=/where/rllm/is TINKER_API_KEY=… configs/rl/wordle-rllm-tinker.sh
# Compiled from registry.yaml (runs.wordle-rllm-tinker) by `envwright train compile`; do not edit by hand.
# With rLLM installed from its checkout (extra tinker), in its own .venv.
# A first try, of two steps: bash configs/rl/wordle-rllm-tinker.sh +verifiers.max_samples=32 rllm.trainer.total_epochs=1
# Arguments of this script are passed on to the trainer.
set -euo pipefail
: "${TINKER_API_KEY:?is not set: the trainer cannot start without it}"
: "${RLLM:?the folder of a checkout of rLLM}"
RLLM=$(cd "$RLLM" && pwd)
VENV="$RLLM/.venv"
[ -x "$VENV/bin/python" ] || { echo "$VENV does not exist; in $RLLM run: uv venv && uv pip install -e .[tinker]" >&2; exit 2; }
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
{ [[ " $* " == *" --clean "* && " $* " != *" --resume"* ]] || [ ! -d outputs/wordle-rllm-tinker ]; } && rm -f outputs/wordle-rllm-tinker.commit.txt
[ -s outputs/wordle-rllm-tinker.commit.txt ] || { git rev-parse --verify HEAD && git status --porcelain -- registry.yaml environments; } > outputs/wordle-rllm-tinker.commit.txt || true
mkdir -p outputs/wordle-rllm-tinker
exec > >(tee -a outputs/wordle-rllm-tinker/console.log) 2>&1
export PYTHONPATH="$RLLM${PYTHONPATH:+:$PYTHONPATH}"

arguments=(
  rllm/backend=tinker                                    # fixed
  +verifiers.env_id=wordle                               # runs.wordle-rllm-tinker.environments[0].id
  +verifiers.dataset=wordle-rllm-tinker                  # rLLM stores data by name: the run's name avoids collisions
  +verifiers.sampling_args.max_tokens=1024               # runs.wordle-rllm-tinker.sampling.max_tokens
  +verifiers.sampling_args.temperature=1.0               # default of sampling.temperature
  model.name=meta-llama/Llama-3.1-8B-Instruct            # runs.wordle-rllm-tinker.model
  model.lora_rank=32                                     # runs.wordle-rllm-tinker.lora.rank
  training.group_size=8                                  # runs.wordle-rllm-tinker.group_size
  training.learning_rate=1e-05                           # runs.wordle-rllm-tinker.learning_rate
  training.max_length=4096                               # default of seq_len
  training.default_local_dir=outputs/wordle-rllm-tinker  # checkpoints
  validation.group_size=1                                # default of eval.rollouts
  rllm.data.train_batch_size=16                          # runs.wordle-rllm-tinker.batch_size; tasks: 128 rollouts / 8
  rllm.data.max_prompt_length=3072                       # default of seq_len; less sampling.max_tokens
  rllm.data.max_response_length=1024                     # runs.wordle-rllm-tinker.sampling.max_tokens
  rllm.rollout.train.temperature=1.0                     # default of sampling.temperature
  rllm.algorithm.adv_estimator=grpo                      # default of algorithm
  rllm.workflow.use_workflow=true                        # verifiers runs as a workflow
  rllm.trainer.total_batches=100                         # runs.wordle-rllm-tinker.max_steps
  rllm.trainer.total_epochs=100                          # at most one per step: the batches decide
  rllm.trainer.project_name=envwright                    # default of wandb.project
  rllm.trainer.experiment_name=wordle-rllm-tinker        # the run's name
  'rllm.trainer.logger=[console]'                        # default of wandb
  rllm.trainer.save_freq=50                              # runs.wordle-rllm-tinker.checkpoints.interval; and the last step
  rllm.trainer.test_freq=-1                              # default of eval.interval
  rllm.trainer.val_before_train=false                    # default of eval.skip_first
)

exec "$VENV/bin/python" configs/rl/wordle-rllm-tinker.py "${arguments[@]}" "$@"
