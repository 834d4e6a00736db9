"""For authors: look at a dataset, begin an environment."""

from __future__ import annotations

import argparse

from envops.cli.arguments import Commands, command, positive, root

KINDS = ("single-turn", "multi-turn", "tool", "judge", "code", "multi-agent")
ANSWERS = ("number", "choice", "boolean", "label", "json", "list", "latex", "code", "text")

INSPECT_EXAMPLES = """examples:
  envops inspect questions.jsonl
  envops inspect data/ --format json            a folder of train.jsonl, test.jsonl
  envops inspect openai/gsm8k --config main --split train --revision 740312a
"""
NEW_EXAMPLES = """examples:
  envops new capital-cities --data questions.jsonl     kind and answer as inspect finds them
  envops new capital-cities --kind tool --answer number
  envops new grade-school --dataset openai/gsm8k --config main
  envops new                                           asks, on a terminal
"""
MIGRATE_EXAMPLES = """examples:
  envops migrate date-arithmetic                   writes environments/date_arithmetic_v1
  envops migrate date-arithmetic --name dates
  envops rewards dates --against environments/date_arithmetic    the proof, again
"""
DOCTOR_EXAMPLES = """examples:
  envops doctor
  envops doctor --fix              removes virtual environments that are not whole
  envops doctor --format json      for machines; exit code 1 where something needed is missing
"""


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add them."""
    inspect = command(
        commands, "inspect", "what a dataset holds, and which environment fits it", "inspect", INSPECT_EXAMPLES
    )
    inspect.add_argument("source", metavar="SOURCE", help="a JSONL, CSV or Parquet file, a folder, or a Hub dataset")
    _hub(inspect)
    inspect.add_argument("--rows", type=positive, metavar="N", help="read at most so many rows of a split")
    inspect.add_argument("--format", choices=("text", "json"), default="text", help="what goes to stdout")

    new = command(commands, "new", "write an environment that passes all gates, to build on", "new", NEW_EXAMPLES)
    new.add_argument("name", nargs="?", metavar="NAME", help="lower case, words joined by hyphens")
    source = new.add_mutually_exclusive_group()
    source.add_argument("--data", metavar="FILE", help="a local file or folder; its rows go into the package")
    source.add_argument(
        "--dataset", metavar="DATASET", help="a Hub dataset; its rows at one commit go into the package"
    )
    _hub(new)
    new.add_argument("--kind", choices=KINDS, help="how the model is asked (default: what fits the data)")
    new.add_argument("--answer", choices=ANSWERS, help="what an answer is (default: what fits the data)")
    new.add_argument("--question", metavar="COLUMN", help="the column with the question (default: as detected)")
    new.add_argument("--solution", metavar="COLUMN", help="the column with the answer (default: as detected)")
    new.add_argument("--v0", action="store_true", help="for verifiers 0.3: load_environment() instead of a Taskset")
    new.add_argument("--owner", action="append", metavar="@OWNER", help="who reviews it (default: as its siblings)")
    root(new)

    migrate = command(
        commands,
        "migrate",
        "move an environment from v0 to v1, and prove that it pays the same",
        "migrate",
        MIGRATE_EXAMPLES,
    )
    migrate.add_argument("old", metavar="NAME", help="the environment to move; it stays as it is")
    migrate.add_argument("--name", metavar="NEW", help="what the new one is called (default: NAME-v1)")
    migrate.add_argument("--no-proof", action="store_true", help="do not compare the rewards of both")
    root(migrate)

    doctor = command(commands, "doctor", "what this machine lacks, and what to do about it", "doctor", DOCTOR_EXAMPLES)
    doctor.add_argument("--fix", action="store_true", help="mend what can be mended without harm")
    doctor.add_argument("--offline", action="store_true", help="ask no endpoint whether it can be reached")
    doctor.add_argument("--format", choices=("text", "json"), default="text", help="what goes to stdout")
    root(doctor)


def _hub(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", metavar="NAME", help="configuration of a Hub dataset")
    command.add_argument("--split", metavar="NAME", help="only this split (default: all; of a large one the beginning)")
    command.add_argument("--revision", metavar="REV", help="commit, tag or branch of a Hub dataset")
