#!/usr/bin/env bash
# Run meeting-agents for prime-rl, self-managed: PRIME_RL=/where/prime-rl/is configs/rl/meeting-agents.sh
# Compiled from registry.yaml (runs.meeting-agents) by `envops train compile`; do not edit by hand.
# On the machine that trains, in a checkout of prime-rl; rl starts everything.
# configs/rl/meeting-agents.sh --dry-run writes the resolved configuration of every process and starts nothing.
# Arguments of this script are passed on to the trainer.
set -euo pipefail
: "${PRIME_RL:?the folder of a checkout of prime-rl}"
PRIME_RL=$(cd "$PRIME_RL" && pwd)
VENV="$PRIME_RL/.venv"
[ -x "$VENV/bin/python" ] || { echo "$VENV does not exist; in $PRIME_RL run: uv sync --all-extras" >&2; exit 2; }
export VIRTUAL_ENV="$VENV" UV_PROJECT_ENVIRONMENT="$VENV"
uv pip install --python "$VENV/bin/python" environments/meeting_time

exec uv run --project "$PRIME_RL" rl @ "$PWD/configs/rl/meeting-agents.toml" "$@"
