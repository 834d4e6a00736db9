"""Rollouts of a model, kept."""

from __future__ import annotations

import argparse

from envops.command_line.arguments import Commands, command, date, model, selection

RECORD_EXAMPLES = """examples:
  envops record gsm8k --endpoint qwen3-30b --max-cost 0.50
  envops record gsm8k --endpoint qwen3-30b -n 20 -r 8
  envops record gsm8k --policy blend            scripted, without a key
"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them."""
    record = command(
        commands, "record", "evaluate once and keep the rollouts and their baseline", "record", RECORD_EXAMPLES
    )
    selection(record, changed=False)
    record.add_argument("--quiet", action="store_true", help="no progress")
    record.add_argument(
        "--allow-network", action="store_true", help="let environments reach the network and the Hub while they load"
    )
    model(record)
    record.add_argument(
        "--policy", metavar="NAME", help="record a scripted policy instead of a model, labelled as such"
    )
    record.add_argument("--date", type=date, metavar="YYYY-MM-DD", help="the baseline's date (default: today)")
