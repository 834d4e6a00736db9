#!/usr/bin/env bash
# Run maths-nodes for prime-rl, self-managed: PRIME_RL=/where/prime-rl/is configs/rl/maths-nodes.sh
# Compiled from registry.yaml (runs.maths-nodes) by `envops train compile`; do not edit by hand.
# On the machine that trains, in a checkout of prime-rl; rl writes a batch script from [slurm] and submits it with sbatch.
# configs/rl/maths-nodes.sh --dry-run writes the resolved configuration of every process and starts nothing.
set -euo pipefail
: "${PRIME_RL:?the folder of a prime-rl checkout}"
uv pip install --project "$PRIME_RL" environments/word_problems

exec uv run --project "$PRIME_RL" rl @ "$PWD/configs/rl/maths-nodes.toml" "$@"
