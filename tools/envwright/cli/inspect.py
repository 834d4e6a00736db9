"""`envwright inspect`: describe a dataset and suggest an environment."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from envwright import exit_codes
from envwright.authoring.dataset.huggingface import MOST_ROWS, open_hub
from envwright.authoring.dataset.profile import profiled
from envwright.authoring.dataset.recognition import NothingToAnswer, recognise
from envwright.authoring.dataset.source import DatasetSource, is_hub_name, open_local
from envwright.authoring.dataset.summary import advice_on, as_json, print_dataset
from envwright.cli import arguments

EXAMPLES = """examples:
  envwright inspect questions.jsonl
  envwright inspect data/ --format json            a folder of train.jsonl, test.jsonl
  envwright inspect openai/gsm8k --config main --split train --revision 740312a
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("source", metavar="SOURCE", help="a JSONL, CSV or Parquet file, a folder, or a Hub dataset")
    add_hub_arguments(command)
    arguments.number(command, "--rows", "maximum number of rows to read from a split")
    arguments.printed(command)


def add_hub_arguments(command: argparse.ArgumentParser) -> None:
    """Arguments that select a part of a Hub dataset."""
    command.add_argument("--config", metavar="NAME", help="configuration of a Hub dataset")
    command.add_argument("--split", metavar="NAME", help="only this split (default: all; of a large one the beginning)")
    command.add_argument("--revision", metavar="REV", help="commit, tag or branch of a Hub dataset")


def run(options: argparse.Namespace) -> int:
    """Read the dataset, describe it, and print the command that makes an environment of it."""
    source = opened(options.source, options)
    hub = is_hub_name(options.source)
    profile = profiled(source, options.rows or (MOST_ROWS if hub else None))
    found = advice = None
    problem = ""
    try:
        found = recognise(profile.largest().sample)
    except NothingToAnswer as error:
        problem = f"{error}. Name columns question and answer, or see docs/inspect-and-new.md."
    if found is not None:
        advice = advice_on(found, options.source, hub=hub, options=_hub_options(options, source))
    if options.format == "json":
        print(as_json(profile, found, advice, problem))
    else:
        print_dataset(profile, found, advice, problem)
    return exit_codes.PASS if found is not None else exit_codes.INCONCLUSIVE


def opened(name: str, options: argparse.Namespace) -> DatasetSource:
    """A local source if it exists, else one of the Hub."""
    if is_hub_name(name):
        return open_hub(name, options.config or "", options.split or "", options.revision or "")
    return open_local(Path(name), options.split or "")


def _hub_options(options: argparse.Namespace, source: DatasetSource) -> str:
    named = (("config", options.config), ("split", options.split), ("revision", source.revision))
    return "".join(f" --{option} {shlex.quote(value)}" for option, value in named if value)
