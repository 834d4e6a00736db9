"""`envwright optimize NAME --model M`: a better system prompt, by the GEPA of the environment's own verifiers."""

from __future__ import annotations

import argparse

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import evaluation_target
from envwright.models.gepa import TRAIN, VALIDATION, SearchBudget
from envwright.models.prompt_optimization import optimize
from envwright.reports.optimized import document, render_json
from envwright.reports.printing import print_document, print_message
from envwright.system.subprocesses import terminated_like_interrupted

EXAMPLES = """examples:
  envwright optimize date-arithmetic --model qwen3-30b                      shows the change, writes nothing
  envwright optimize date-arithmetic --model qwen3-30b --max-calls 300 --max-cost 2 --write
  envwright optimize date-arithmetic --model qwen3-30b --reflection-model openai/gpt-5      another model reflects
  envwright optimize gsm8k --model qwen3-30b --initial-prompt "Think step by step."     v1 without a system prompt
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.environment(command)
    arguments.model_name(
        command,
        "the model that plays and reflects: of configs/endpoints.toml, or owner/model of Prime Inference",
        required=True,
    )
    budget = command.add_argument_group("budget", "shown before the start, and refused above the limit")
    arguments.number(budget, "--max-calls", "maximum number of rollouts", SearchBudget.max_calls)
    arguments.max_cost(budget, "the search")
    arguments.number(budget, "--train-tasks", f"training tasks, for reflections (default: {TRAIN})", 0)
    arguments.number(budget, "--validation-tasks", f"tasks to score candidates on (default: {VALIDATION})", 0)
    gepa = command.add_argument_group("reflections", "of GEPA, with the defaults of verifiers")
    gepa.add_argument("--reflection-model", metavar="NAME", help="another model that proposes prompts")
    arguments.number(gepa, "--minibatch-size", "training tasks of one reflection", SearchBudget.minibatch_size)
    gepa.add_argument(
        "--columns", type=_names, metavar="A,B", default=(), help="further fields of rollouts that it reads"
    )
    gepa.add_argument(
        "--perfect-score", type=float, metavar="REWARD", help="v0: no reflection on minibatches with this reward"
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="of GEPA's own choices (default: 0)")
    command.add_argument("--initial-prompt", metavar="TEXT", help="v1: initial prompt for tasks without one")
    command.add_argument("--write", action="store_true", help="write the better prompt into the source")
    arguments.printed(command, "markdown")
    command.add_argument("-q", "--quiet", action="store_true", help="only the answer and the change of the prompt")
    arguments.network(command, "the environment", "it loads")
    arguments.reports(command, "prompts/ goes")


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def run(options: argparse.Namespace) -> int:
    target = evaluation_target(options)
    budget, reflects = arguments.settings(SearchBudget, options), options.reflection_model
    with terminated_like_interrupted():
        report = optimize(target, budget, options.endpoint, reflects, options.reports, write=options.write)
    print_document(options.format, render_json(report), document(report), document(report, quiet=options.quiet))
    if options.write and report.placed == "not-placeable":
        print_message(f"nothing was written: {report.place}")
        return exit_codes.USAGE
    return exit_codes.OF_VERDICT[report.verdict]
