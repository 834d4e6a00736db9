#!/usr/bin/env bash
# Run wordle-legacy for verifiers' own RLTrainer (legacy): configs/rl/wordle-legacy.sh
# Compiled from registry.yaml (runs.wordle-legacy) by `envops train compile`; do not edit by hand.
# On a Linux machine with two GPUs and tmux: vf-rl starts vLLM and the trainer there.
# Arguments of this script are passed on to the trainer.
set -euo pipefail
VENV="$PWD/.envops/trainers/wordle-legacy/.venv"
[ -x "$VENV/bin/python" ] || uv venv --python 3.11 "$VENV"
export VIRTUAL_ENV="$VENV" UV_PROJECT_ENVIRONMENT="$VENV"
uv pip install --python "$VENV/bin/python" 'verifiers[rl]==0.1.9.post3'
prime env install primeintellect/wordle@0.1.8  # exits with 0 also when it fails: the next line checks
[ "$("$VENV/bin/python" -c 'from importlib.metadata import version; print(version("wordle"))')" = 0.1.8 ] || { echo "primeintellect/wordle@0.1.8 was not installed into $VENV" >&2; exit 1; }

exec "$VENV/bin/vf-rl" @ "$PWD/configs/rl/wordle-legacy.toml" --cwd "$(dirname "$VENV")" "$@"
