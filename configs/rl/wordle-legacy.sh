#!/usr/bin/env bash
# Run wordle-legacy for verifiers' own RLTrainer (legacy): configs/rl/wordle-legacy.sh
# Compiled from registry.yaml (runs.wordle-legacy) by `envwright train compile`; do not edit by hand.
# On a Linux machine with two GPUs and tmux: vf-rl starts vLLM and the trainer there.
# Arguments of this script are passed on to the trainer.
set -euo pipefail
VENV="$PWD/.envwright/trainers/wordle-legacy/.venv"
[ -x "$VENV/bin/python" ] || uv venv --python 3.11 "$VENV"
export VIRTUAL_ENV="$VENV" UV_PROJECT_ENVIRONMENT="$VENV"
uv pip install --python "$VENV/bin/python" 'verifiers[rl]==0.1.9.post3'
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
{ [[ " $* " == *" --clean "* && " $* " != *" --resume"* ]] || [ ! -d outputs/wordle-legacy ]; } && rm -f outputs/wordle-legacy.commit.txt
[ -s outputs/wordle-legacy.commit.txt ] || { git rev-parse --verify HEAD && git status --porcelain -- registry.yaml environments; } > outputs/wordle-legacy.commit.txt || true

exec "$VENV/bin/vf-rl" @ "$PWD/configs/rl/wordle-legacy.toml" --cwd "$(dirname "$VENV")" "$@"
