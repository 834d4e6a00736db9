#!/usr/bin/env bash
# Run wordle-tinker for tinker-cookbook: TINKER_API_KEY=… configs/rl/wordle-tinker.sh
# Compiled from registry.yaml (runs.wordle-tinker) by `envwright train compile`; do not edit by hand.
# left out: seq_len = 4096: Tinker uses that of the model
# Arguments of this script are passed on to the trainer.
set -euo pipefail
: "${TINKER_API_KEY:?is not set: the trainer cannot start without it}"
VENV="$PWD/.envwright/trainers/wordle-tinker/.venv"
[ -x "$VENV/bin/python" ] || uv venv --python 3.11 "$VENV"
export VIRTUAL_ENV="$VENV" UV_PROJECT_ENVIRONMENT="$VENV"
uv pip install --python "$VENV/bin/python" --overrides <(echo tml-renderers) 'tinker-cookbook[verifiers]==0.6.1' 'verifiers==0.1.9.post3'
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
{ [[ " $* " == *" --clean "* && " $* " != *" --resume"* ]] || [ ! -d outputs/wordle-tinker ]; } && rm -f outputs/wordle-tinker.commit.txt
[ -s outputs/wordle-tinker.commit.txt ] || { git rev-parse --verify HEAD && git status --porcelain -- registry.yaml environments; } > outputs/wordle-tinker.commit.txt || true

arguments=(
  model_name=meta-llama/Llama-3.1-8B-Instruct            # runs.wordle-tinker.model
  renderer_name=llama3                                   # recommended by model_info; the recipe's default is Qwen3.5's
  lora_rank=32                                           # runs.wordle-tinker.lora.rank
  vf_env_id=wordle                                       # runs.wordle-tinker.environments[0].id
  group_size=8                                           # runs.wordle-tinker.group_size
  groups_per_batch=16                                    # runs.wordle-tinker.batch_size; tasks: 128 rollouts / 8
  learning_rate=1e-05                                    # runs.wordle-tinker.learning_rate
  max_tokens=1024                                        # runs.wordle-tinker.sampling.max_tokens
  temperature=1.0                                        # default of sampling.temperature
  max_steps=100                                          # runs.wordle-tinker.max_steps
  save_every=50                                          # runs.wordle-tinker.checkpoints.interval; kept for 7 days
  log_path=outputs/wordle-tinker                         # contains metrics.jsonl, for `envwright watch`
  behavior_if_log_dir_exists=resume                      # resumes when started again
)

exec "$VENV/bin/python" -m tinker_cookbook.recipes.verifiers_rl.train "${arguments[@]}" "$@"
