"""The distribution gate on rollouts from elsewhere, and on an evaluation by Prime Intellect's platform."""

from __future__ import annotations

import argparse
from pathlib import Path

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import evaluation_target
from envwright.models.hosted_evaluation import evaluate_hosted
from envwright.models.model_evaluation import EvaluationTarget
from envwright.models.model_gate import judge_results
from envwright.observing.job import failing_as
from envwright.reports.written import report
from envwright.system.subprocesses import terminated_like_interrupted

EXAMPLES = {
    "distribution results": """examples:
  envwright distribution results reverse-text outputs/traces.jsonl      rollouts of verifiers v1
  envwright distribution results gsm8k outputs/evals/gsm8k--model/1a2b  the newest of a folder, here of vf-eval
""",
    "distribution hosted": """examples:
  envwright distribution hosted gsm8k --model qwen3-30b -n 500 -r 8 --max-cost 5

interrupted, the same command follows the same evaluation again at no further cost
""",
}


def add_arguments_results(command: argparse.ArgumentParser) -> None:
    arguments.environment(command)
    command.add_argument(
        "results",
        type=Path,
        metavar="FILE",
        help="JSONL of envwright, results.jsonl (v0), traces.jsonl (v1), or their folder",
    )
    arguments.printed(command, "markdown")
    command.add_argument("-q", "--quiet", action="store_true", help="no progress; report only what decides the verdict")
    arguments.no_cache(command)
    arguments.network(command, "the environment", "it loads")
    arguments.reports(command)


def run_results(options: argparse.Namespace) -> int:
    return _judge(evaluation_target(options), options.results, options)


def _judge(target: EvaluationTarget, results: Path, options: argparse.Namespace) -> int:
    result = judge_results(target, results)
    report(result, options.reports, options.format, quiet=options.quiet)
    return exit_codes.OF_VERDICT[result.verdict]


def add_arguments_hosted(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="the environment, as it is published")
    arguments.root(command)
    arguments.printed(command, "markdown")
    command.add_argument("-q", "--quiet", action="store_true", help="report only what decides the verdict")
    command.add_argument("--no-cache", action="store_true", help="evaluate again even if nothing changed")
    arguments.network(command, "the environment", "it loads here")
    arguments.reports(command)
    arguments.model_name(command, "a model of configs/endpoints.toml at Prime Inference", required=True)
    arguments.size(command)
    arguments.concurrency(command)
    arguments.max_cost(command, "the evaluation")


def run_hosted(options: argparse.Namespace) -> int:
    target = evaluation_target(options)
    with terminated_like_interrupted(), failing_as("the environment cannot be loaded here"):
        folder = evaluate_hosted(target, options.endpoint, options.reports)
    return _judge(target, folder, options)
