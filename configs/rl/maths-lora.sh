#!/usr/bin/env bash
# Run maths-lora for prime-rl, self-managed: PRIME_RL=/where/prime-rl/is configs/rl/maths-lora.sh
# Compiled from registry.yaml (runs.maths-lora) by `envops train compile`; do not edit by hand.
# On the machine that trains, in a checkout of prime-rl; rl starts everything.
# configs/rl/maths-lora.sh --dry-run writes the resolved configuration of every process and starts nothing.
# Arguments of this script are passed on to the trainer.
set -euo pipefail
: "${PRIME_RL:?the folder of a checkout of prime-rl}"
PRIME_RL=$(cd "$PRIME_RL" && pwd)
VENV="$PRIME_RL/.venv"
[ -x "$VENV/bin/python" ] || { echo "$VENV does not exist; in $PRIME_RL run: uv sync --all-extras" >&2; exit 2; }
export VIRTUAL_ENV="$VENV" UV_PROJECT_ENVIRONMENT="$VENV"
uv pip install --python "$VENV/bin/python" environments/word_problems
uv pip install --python "$VENV/bin/python" environments/gsm8k

exec uv run --project "$PRIME_RL" rl @ "$PWD/configs/rl/maths-lora.toml" "$@"
