"""`envwright distribution results NAME FILE`: the gate on rollouts from elsewhere."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from envwright import __version__, exit_codes
from envwright.cli import arguments
from envwright.cli.selection import beside_key, facts_of
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.observed import Facts
from envwright.facts.stages import needed_by
from envwright.models.import_results import Expected, Imported, NoResults, import_results, print_problems
from envwright.observing.observation_request import ObservationRequest
from envwright.packages.repository import Repository
from envwright.reports.written import report
from envwright.rules.engine import Subject
from envwright.rules.result import ValidationResult, environment_result
from envwright.rules.verdict import judge
from envwright.system.workspace import Workspace

STAGES = needed_by("smoke", "distribution")


EXAMPLES = """examples:
  envwright distribution results reverse-text outputs/traces.jsonl      rollouts of verifiers v1
  envwright distribution results gsm8k outputs/evals/gsm8k--model/1a2b  the newest of a folder, here of vf-eval
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="NAME", help="the environment")
    command.add_argument(
        "results",
        type=Path,
        metavar="FILE",
        help="JSONL of envwright, results.jsonl (v0), traces.jsonl (v1), or their folder",
    )
    arguments.root(command)
    arguments.printed(command, "markdown")
    command.add_argument("-q", "--quiet", action="store_true", help="no progress; report only what decides the verdict")
    command.add_argument("--no-cache", action="store_true", help="observe again even if nothing changed")
    arguments.network(command, "the environment", "it loads")
    arguments.reports(command)


def run(options: argparse.Namespace) -> int:
    """Judge the file and return the exit code."""
    return judge_results(options.name, options.results, options)


def judge_results(name: str, results: Path, options: argparse.Namespace) -> int:
    """Judge a file or folder of results of an environment and return the exit code."""
    started = time.monotonic()
    root = options.root.absolute()
    if not results.exists():
        print(f"{results} does not exist", file=sys.stderr)
        return exit_codes.USAGE
    repository = Repository.load(root, [name])
    (name,) = repository.select([name])
    repository = beside_key(repository, [name])  # `distribution hosted` has judged with the platform's key
    entry, package = repository.registry.environments[name], repository.packages[name]
    known = known_environment(entry, package, Workspace(root), options)
    if known.description is None:
        judgement = judge(Subject(entry, package, known), ["distribution"])
        facts, path = known, results
    else:
        try:
            imported = import_results(results, Expected(name, package.module, package.digest, known))
        except (NoResults, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return exit_codes.USAGE
        path = imported.path
        if imported.refusals:
            print_problems(path, imported.refusals, "not judged: the file belongs to another environment or version")
            return exit_codes.USAGE
        print_problems(path, imported.problems, "judged anyway: unusable rollouts count as missing")
        facts = _with_rollouts(imported, known)
        judgement = judge(Subject(entry, package, facts), ["distribution"])
    seconds = time.monotonic() - started
    judged = environment_result(package, facts, judgement, root=root, cached=False, seconds=seconds)
    result = ValidationResult(
        judgement.verdict, (judged,), seconds=seconds, tool_version=__version__, gates=("distribution",)
    )
    report(result, options.reports or root / "reports", options.format, quiet=options.quiet)
    return exit_codes.OF_VERDICT[result.verdict]


def known_environment(
    entry: EnvironmentEntry, package: Package, workspace: Workspace, options: argparse.Namespace
) -> Facts:
    """The description of the environment, without scores or rollouts."""
    request = ObservationRequest(options.allow_network, not options.no_cache, evaluate=False, score=False)
    return facts_of(entry, package, workspace, request, threading.Event(), quiet=options.quiet)


def _with_rollouts(imported: Imported, known: Facts) -> Facts:
    """The local environment, with the rollouts of the file and no others."""
    asked = Counter(row.speaker for row in imported.rows)
    return replace(
        known,
        scores=(),
        rollouts=tuple(row.as_rollout() for row in imported.rows),
        rollouts_asked=dict(asked),
        completed=tuple(dict.fromkeys((*known.completed, *STAGES))),
        failures={stage: failure for stage, failure in known.failures.items() if stage not in STAGES},
    )
