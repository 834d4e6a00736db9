"""`envwright compare NAME --before X --after Y`: is the trained model better on the same tasks?"""

from __future__ import annotations

import argparse

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import evaluation_target
from envwright.models.comparison import ComparisonSettings, compare
from envwright.reports.before_after import document, render_json
from envwright.reports.printing import print_document
from envwright.system.subprocesses import terminated_like_interrupted

EXAMPLES = """examples:
  envwright compare gsm8k --before base --after trained          two endpoints: 0 better, 1 worse, 3 not decided
  envwright compare gsm8k --before recording:base --after checkpoint-200
  envwright compare gsm8k --before openai/gpt-5-nano --after trained             a model of Prime Inference
  envwright compare gsm8k --before base --after run:maths@200     its base model and its step 200, served here
  envwright compare gsm8k --before before.jsonl --after after/results.jsonl
  envwright compare gsm8k --before base --after trained --split train
  envwright compare gsm8k --before base --after trained -n 50 -r 4 --max-cost 2

to see what a run has left, and to serve it until Ctrl-C: envwright train serve RUN
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.environment(command)
    side = (
        "an endpoint, run:RUN[@STEP], owner/model of Prime Inference, a recording, or results (recording:X, results:X)"
    )
    command.add_argument("--before", required=True, metavar="SIDE", help=side)
    command.add_argument("--after", required=True, metavar="SIDE", help="the same")
    calls = command.add_argument_group("calls of endpoints", "by default on the tasks of the side that is a file")
    arguments.size(calls)
    arguments.concurrency(calls)
    arguments.split(calls, "that of a file, else eval if the environment has it")
    arguments.max_cost(calls, "both sides together")
    arguments.scripted_judge(calls)
    calls.add_argument(
        "--seed",
        type=_seed,
        default=0,
        metavar="N",
        help="sent with every call, the same on both sides; none sends no seed",
    )
    calls.add_argument("--any-sampling", action="store_true", help="compare sides that were sampled differently")
    arguments.printed(command, "markdown")
    command.add_argument("-q", "--quiet", action="store_true", help="no progress; report only the answer")
    arguments.no_cache(command)
    arguments.network(command, "the environment", "it loads")
    arguments.reports(command, "comparisons/ goes")


def _seed(text: str) -> int | None:
    if text != "none" and not text.removeprefix("-").isdecimal():
        raise argparse.ArgumentTypeError("must be a whole number, or none")
    return None if text == "none" else int(text)


def run(options: argparse.Namespace) -> int:
    target = evaluation_target(options)
    with terminated_like_interrupted():
        report = compare(target, arguments.settings(ComparisonSettings, options))
    print_document(options.format, render_json(report), document(report), document(report, quiet=options.quiet))
    return exit_codes.OF_VERDICT[report.verdict]
