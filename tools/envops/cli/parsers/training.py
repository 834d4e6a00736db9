"""Training runs: compiled, submitted, followed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from envops.cli.arguments import Commands, command, cost, network, positive, printed, root

TRAIN_EXAMPLES = """examples:
  envops train --compile-only                  every declared run, into configs/rl/
  envops train --compile-only --check          in CI: fails where a file is out of date
  envops train --dry-run                       what would be submitted, and why
  envops train                                 submit what is due: submit: on-release, and not there yet
  envops train reverse-text-4b                 this run, also where it says submit: manual
  envops train --env primeintellect/gsm8k --model Qwen/Qwen3-4B-Instruct-2507
  envops train reverse-text-here               backend: trl: train it on this machine, now
  envops train reverse-text --probe            whether its reward reaches a gradient, here, in three minutes
"""
WATCH_EXAMPLES = """examples:
  envops watch reverse-text-4b                a declared run, on the platform or in outputs/
  envops watch reverse-text-4b --follow       again every minute, until it ends
  envops watch outputs/maths-lora --run maths-lora
"""
DIAGNOSE_EXAMPLES = """examples:
  envops diagnose reverse-text-4b             a declared run
  envops diagnose run_0123                    a run of the platform, by its id
  envops diagnose metrics.jsonl               a trainer's own file, or the folder that holds it
  envops diagnose outputs/x --run maths-lora  as which run the patch is to be written
"""
OPTIMIZE_EXAMPLES = """examples:
  envops optimize date-arithmetic --endpoint qwen3-30b                      shows the change, writes nothing
  envops optimize date-arithmetic --endpoint qwen3-30b --max-calls 300 --max-cost 2 --write
  envops optimize gsm8k --endpoint qwen3-30b --initial-prompt "Think step by step."     v1 without a system prompt
"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them."""
    train = command(
        commands, "train", "compile the declared training runs, submit those that are due", "train", TRAIN_EXAMPLES
    )
    train.add_argument("names", nargs="*", metavar="RUN", help="runs of the registry (default: all)")
    root(train)
    how = train.add_argument_group("how far")
    how.add_argument("--compile-only", action="store_true", help="write the trainers' configurations and stop")
    how.add_argument(
        "--check", action="store_true", help="with --compile-only: write nothing, fail where a file differs"
    )
    how.add_argument("--dry-run", action="store_true", help="say what would be submitted, and submit nothing")
    how.add_argument(
        "--requirements", action="store_true", help="say what has to be installed for this call, and do nothing"
    )
    printed(train)
    train.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="train what a compiled file of TRL's says, instead of a declared run",
    )
    train.add_argument("--quiet", action="store_true", help="only what fails")
    _fast_path(train)
    _probe(train)
    _following(commands)
    _optimize(commands)


def _fast_path(train: argparse.ArgumentParser) -> None:
    fast = train.add_argument_group(
        "an environment of the Hub", "without a registry and without gates: it is there already"
    )
    fast.add_argument("--env", action="append", metavar="OWNER/NAME", help="train on it; several make a mix")
    fast.add_argument("--model", metavar="M", help="the model to begin with")
    fast.add_argument("--max-steps", type=int, default=100, metavar="N", help="training steps (default: 100)")
    fast.add_argument("--yes", action="store_true", help="submit without asking")
    fast.add_argument("--output", type=Path, metavar="FILE", help="where the configuration goes (default: configs/rl/)")


def _probe(train: argparse.ArgumentParser) -> None:
    probe = train.add_argument_group("a probe", "a tiny model of random weights, trained here on the environment RUN")
    probe.add_argument("--probe", action="store_true", help="see whether the environment's reward reaches a gradient")
    probe.add_argument("--seconds", type=float, default=120.0, metavar="S", help="how long it trains (default: 120)")
    probe.add_argument("--seed", type=int, default=0, metavar="N", help="of weights, tasks and samples (default: 0)")
    probe.add_argument(
        "--args",
        type=mapping,
        metavar="JSON",
        help="arguments of the environment (default: `probe: {args}` of its entry)",
    )


def mapping(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("must be a JSON object")
    return value


def _following(commands: Commands[argparse.ArgumentParser]) -> None:
    about = {
        "watch": ("follow a training run: curves, rollouts, checkpoints, and what is wrong", WATCH_EXAMPLES),
        "diagnose": ("name what is wrong with a training run, and the change that it asks for", DIAGNOSE_EXAMPLES),
    }
    for name, (summary, examples) in about.items():
        added = command(commands, name, summary, "diagnose", examples)
        added.add_argument("target", metavar="RUN", help="a run of the registry or the platform, a folder, or a file")
        root(added)
        added.add_argument("--run", metavar="NAME", help="the declared run that files belong to")
        printed(added)
        added.add_argument("--quiet", action="store_true", help="only where it stands and what is wrong")
        added.add_argument(
            "--reports", type=Path, metavar="FOLDER", help="where runs/NAME.json goes (default: reports/)"
        )
        if name == "watch":
            added.add_argument("--follow", action="store_true", help="look again until the run has ended")
            added.add_argument(
                "--interval", type=float, default=60.0, metavar="S", help="seconds between (default: 60)"
            )


def _optimize(commands: Commands[argparse.ArgumentParser]) -> None:
    optimize = command(
        commands, "optimize", "a better system prompt, by GEPA", "optimize",
        OPTIMIZE_EXAMPLES,
    )  # fmt: skip
    optimize.add_argument("name", metavar="NAME", help="the environment")
    root(optimize)
    optimize.add_argument(
        "--endpoint", required=True, metavar="NAME", help="the model of configs/endpoints.toml that plays and reflects"
    )
    budget = optimize.add_argument_group("budget", "shown, and refused where it could be too much, before it starts")
    budget.add_argument(
        "--max-calls", type=positive, default=200, metavar="N", help="rollouts at which it stops (default: 200)"
    )
    budget.add_argument(
        "--max-cost", type=cost, metavar="DOLLARS", help="what the search may cost at most (default: 1), or none"
    )
    budget.add_argument(
        "--train-tasks", type=positive, metavar="N", help="tasks that reflections look at (default: 24)"
    )
    budget.add_argument(
        "--validation-tasks", type=positive, metavar="N", help="tasks that candidates are scored on (default: 16)"
    )
    optimize.add_argument("--seed", type=int, default=0, metavar="N", help="of GEPA's own choices (default: 0)")
    optimize.add_argument("--initial-prompt", metavar="TEXT", help="v1: where to begin, where tasks have none")
    optimize.add_argument("--write", action="store_true", help="put the better prompt where the old one is written")
    printed(optimize)
    optimize.add_argument("--quiet", action="store_true", help="only the answer and the change of the prompt")
    network(optimize, "the environment", "it loads")
    optimize.add_argument("--reports", type=Path, metavar="FOLDER", help="where prompts/ goes (default: reports/)")
