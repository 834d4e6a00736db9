#!/usr/bin/env bash
# Run maths-nodes for prime-rl, self-managed: PRIME_RL=/where/prime-rl/is configs/rl/maths-nodes.sh
# Compiled from registry.yaml (runs.maths-nodes) by `envops train compile`; do not edit by hand.
# On the machine that trains, in a checkout of prime-rl; rl writes a batch script from [slurm] and submits it with sbatch.
# configs/rl/maths-nodes.sh --dry-run writes the resolved configuration of every process and starts nothing.
# Arguments of this script are passed on to the trainer.
set -euo pipefail
: "${PRIME_RL:?the folder of a checkout of prime-rl}"
PRIME_RL=$(cd "$PRIME_RL" && pwd)
VENV="$PRIME_RL/.venv"
[ -x "$VENV/bin/python" ] || { echo "$VENV does not exist; in $PRIME_RL run: uv sync --all-extras" >&2; exit 2; }
export VIRTUAL_ENV="$VENV" UV_PROJECT_ENVIRONMENT="$VENV"
uv pip install --python "$VENV/bin/python" environments/word_problems

exec uv run --project "$PRIME_RL" rl @ "$PWD/configs/rl/maths-nodes.toml" "$@"
