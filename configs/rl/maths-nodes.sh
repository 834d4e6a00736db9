#!/usr/bin/env bash
# Run maths-nodes for prime-rl, self-managed: PRIME_RL=/where/prime-rl/is configs/rl/maths-nodes.sh
# Compiled from registry.yaml (runs.maths-nodes) by `envwright train compile`; do not edit by hand.
# On the machine that trains, in a checkout of prime-rl; rl writes a batch script from [slurm] and submits it with sbatch.
# configs/rl/maths-nodes.sh --dry-run writes the resolved configuration of every process and starts nothing.
# Arguments of this script are passed on to the trainer.
set -euo pipefail
: "${PRIME_RL:?the folder of a checkout of prime-rl}"
PRIME_RL=$(cd "$PRIME_RL" && pwd)
VENV="$PRIME_RL/.venv"
[ -x "$VENV/bin/python" ] || { echo "$VENV does not exist; in $PRIME_RL run: uv sync --all-extras" >&2; exit 2; }
export VIRTUAL_ENV="$VENV" UV_PROJECT_ENVIRONMENT="$VENV"
LOCKED="$VENV/locked.txt"
"$VENV/bin/python" -c "import re, sys; from importlib.metadata import distributions as all; found = {f'{each.name}=={each.version}' for each in all() if re.sub('[-_.]+', '-', each.name).lower() not in sys.argv[1:]}; print(*sorted(found), sep='\n')" word-problems > "$LOCKED"
uv pip install --python "$VENV/bin/python" --no-deps environments/word_problems
CHECK=$(uv pip check --python "$VENV/bin/python" 2>&1) || [ $? -eq 1 ] || { echo "$CHECK" >&2; exit 1; }
UNMET=$(grep -F -e '`word-problems` requires' <<<"$CHECK") && echo "$UNMET" >&2
if grep -v 'requires `verifiers' <<<"$UNMET" | grep -q .; then
  echo "to add only the missing packages: uv pip install --python \"$VENV/bin/python\" --overrides \"$LOCKED\" environments/word_problems" >&2
  echo "a version that differs is the trainer's: the environment needs another release or trainer" >&2
  exit 1
fi
"$VENV/bin/python" -c "import word_problems"
if [[ " $* " != *" --dry-run "* ]]; then
  mkdir -p outputs
  { [[ " $* " == *" --clean "* && " $* " != *" --resume"* ]] || [ ! -d outputs/maths-nodes ]; } && rm -f outputs/maths-nodes.commit.txt
  [ -s outputs/maths-nodes.commit.txt ] || { git rev-parse --verify HEAD && git status --porcelain -- registry.yaml environments; } > outputs/maths-nodes.commit.txt || true
fi

exec uv run --project "$PRIME_RL" rl @ "$PWD/configs/rl/maths-nodes.toml" "$@"
