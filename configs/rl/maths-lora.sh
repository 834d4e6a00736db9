#!/usr/bin/env bash
# Run maths-lora for prime-rl, self-managed: PRIME_RL=/where/prime-rl/is configs/rl/maths-lora.sh
# Compiled from registry.yaml (runs.maths-lora) by `envops train compile`; do not edit by hand.
# On the machine that trains, in a checkout of prime-rl; rl starts everything.
# configs/rl/maths-lora.sh --dry-run writes the resolved configuration of every process and starts nothing.
set -euo pipefail
: "${PRIME_RL:?the folder of a prime-rl checkout}"
uv pip install --project "$PRIME_RL" environments/word_problems
uv pip install --project "$PRIME_RL" environments/gsm8k

exec uv run --project "$PRIME_RL" rl @ "$PWD/configs/rl/maths-lora.toml" "$@"
