"""`envwright record`: evaluate once, and keep the rollouts and their baseline with the environment."""

from __future__ import annotations

import argparse
import datetime

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import beside_key
from envwright.exit_codes import CommandError
from envwright.models.model_evaluation import EvaluationSettings
from envwright.models.record import record
from envwright.packages.repository import Repository

EXAMPLES = """examples:
  envwright record gsm8k --model qwen3-30b --max-cost 0.50
  envwright record gsm8k --model qwen3-30b -n 20 -r 8
  envwright record gsm8k --model qwen3-30b --split eval     its held-out tasks, as a second recording
  envwright record gsm8k --policy blend            scripted, without a key
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command, changed=False)
    command.add_argument("-q", "--quiet", action="store_true", help="no progress")
    arguments.network(command, "environments", "they load")
    speaker = command.add_mutually_exclusive_group(required=True)
    arguments.model(command, speaker)
    speaker.add_argument("--policy", metavar="NAME", help="record a scripted policy instead, labelled as such")
    command.add_argument("--date", type=_date, metavar="YYYY-MM-DD", help="the baseline's date (default: today)")


def _date(text: str) -> str:
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise argparse.ArgumentTypeError("must be a date, as YYYY-MM-DD") from None


def run(options: argparse.Namespace) -> int:
    if not options.names:
        raise CommandError("name the environments to evaluate the model on")
    repository = Repository.load(options.root, options.names)
    names = repository.select(options.names)
    settings = arguments.settings(EvaluationSettings, options)
    record(beside_key(repository, names), names, settings, options.endpoint, options.policy, options.date)
    return exit_codes.PASS
