#!/usr/bin/env bash
# Run wordle-legacy for verifiers' own RLTrainer (legacy): configs/rl/wordle-legacy.sh
# Compiled from registry.yaml (runs.wordle-legacy) by `envops train compile`; do not edit by hand.
# On a Linux machine with two GPUs and tmux: vf-rl starts vLLM and the trainer there.
set -euo pipefail
uv venv --python 3.11 && uv pip install 'verifiers[rl]==0.1.9.post3'
prime env install primeintellect/wordle@0.1.8

exec uv run vf-rl @ configs/rl/wordle-legacy.toml "$@"
