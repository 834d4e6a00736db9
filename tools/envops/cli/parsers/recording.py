"""Rollouts of a model: kept, and compared."""

from __future__ import annotations

import argparse
from pathlib import Path

from envops.cli.arguments import Commands, command, cost, date, model, network, positive, printed, root, selection

RECORD_EXAMPLES = """examples:
  envops record gsm8k --endpoint qwen3-30b --max-cost 0.50
  envops record gsm8k --endpoint qwen3-30b -n 20 -r 8
  envops record gsm8k --policy blend            scripted, without a key
"""
COMPARE_EXAMPLES = """examples:
  envops compare gsm8k --before base --after trained          two endpoints: 0 better, 1 worse, 3 not decided
  envops compare gsm8k --before recording:base --after checkpoint-200
  envops compare gsm8k --before before.jsonl --after after/results.jsonl
  envops compare gsm8k --before base --after trained -n 50 -r 4 --max-cost 2

a checkpoint is an endpoint once something serves it: vllm serve FOLDER, and its address in configs/endpoints.toml
"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them."""
    record = command(
        commands, "record", "evaluate once and keep the rollouts and their baseline", "record", RECORD_EXAMPLES
    )
    selection(record, changed=False)
    record.add_argument("--quiet", action="store_true", help="no progress")
    network(record, "environments", "they load")
    model(record)
    record.add_argument(
        "--policy", metavar="NAME", help="record a scripted policy instead of a model, labelled as such"
    )
    record.add_argument("--date", type=date, metavar="YYYY-MM-DD", help="the baseline's date (default: today)")
    _compare(commands)


def _compare(commands: Commands[argparse.ArgumentParser]) -> None:
    compare = command(
        commands, "compare", "before and after training: the paired difference on the same tasks", "compare",
        COMPARE_EXAMPLES,
    )  # fmt: skip
    compare.add_argument("name", metavar="NAME", help="the environment")
    root(compare)
    side = "an endpoint, a recording of the environment, or a file of results (endpoint:X, recording:X, results:X)"
    compare.add_argument("--before", required=True, metavar="SIDE", help=side)
    compare.add_argument("--after", required=True, metavar="SIDE", help="the same")
    asked = compare.add_argument_group("what endpoints are asked", "by default the tasks of the side that is a file")
    asked.add_argument("-n", "--tasks", type=positive, metavar="N", help="on how many tasks")
    asked.add_argument("-r", "--rollouts", type=positive, metavar="N", help="how many rollouts on each")
    asked.add_argument(
        "--max-cost", type=cost, metavar="DOLLARS", help="what both sides may cost at most (default: 1), or none"
    )
    asked.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="sent with every call, the same on both sides; or none"
    )
    asked.add_argument("--any-sampling", action="store_true", help="compare sides that were sampled differently")
    printed(compare)
    compare.add_argument("--quiet", action="store_true", help="no progress, and only the answer")
    compare.add_argument("--no-cache", action="store_true", help="observe again even where nothing changed")
    network(compare, "the environment", "it loads")
    compare.add_argument("--reports", type=Path, metavar="FOLDER", help="where comparisons/ goes (default: reports/)")


def seed(text: str) -> int | None:
    return None if text == "none" else int(text)
