"""`envops validate` and its single gates: declare, observe, judge, report, for every environment."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from envops import __version__, exit_codes
from envops.cli.harness_support import NotSeated, check_seat
from envops.cli.selection import chosen_environments
from envops.reports.open_progress import open_progress
from envops.reports.written import report
from envops.repository.problem import DeclarationError
from envops.repository.repository import Repository
from envops.repository.workspace import Workspace
from envops.rules.engine import GATES, Gate
from envops.rules.result import ValidationResult
from envops.rules.verdict import worst
from envops.system.capacity import usable_cores
from envops.validation.observation_request import ObservationRequest
from envops.validation.runner import run_all
from envops.validation.verdicts import BRIEF_FROM, ValidationRequest


def run(options: argparse.Namespace) -> int:
    """Validate the chosen environments and return the exit code."""
    contradiction = _contradiction(options)
    if contradiction:
        print(contradiction, file=sys.stderr)
        return exit_codes.USAGE
    if getattr(options, "results", None) is not None:
        from envops.cli.results_gate import run as run_on_results

        return run_on_results(options)
    if getattr(options, "pool", None) is not None:
        from envops.cli.pool_gate import run as run_in_pool

        return run_in_pool(options)
    if getattr(options, "hosted", False):
        from envops.cli.hosted_gate import run as run_hosted

        return run_hosted(options)
    if getattr(options, "endpoint", None) is not None:
        from envops.cli.model_gate import run as run_with_model

        return run_with_model(options)
    return _run_scripted(options)


def _contradiction(options: argparse.Namespace) -> str:
    """What is wrong with how flags were put together; empty where nothing is."""
    flags = ("results", "endpoint", "pool", "hosted", "harness", "max_cost")
    values = {name: getattr(options, name, None) for name in flags}
    given = {name for name, value in values.items() if value is not None and value is not False}
    if options.shard is not None and given & {"results", "endpoint"}:
        return "--shard divides the scripted gates: it does not go with --results or --endpoint"
    if "harness" in given and given & {"results", "pool", "hosted"}:
        return "--harness plays rollouts here: it does not go with --results, --pool or --hosted"
    if len(given & {"results", "pool", "hosted"}) > 1:
        return "--results, --pool and --hosted say three ways to come by rollouts: choose one"
    if given & {"pool", "hosted"} and "endpoint" not in given:
        return "--pool and --hosted go with --endpoint NAME: the model that speaks"
    if "max_cost" in given and "endpoint" not in given:
        return "--max-cost belongs to --endpoint NAME: scripted policies cost nothing"
    return ""


def _run_scripted(options: argparse.Namespace) -> int:
    started = time.monotonic()
    root = options.root.absolute()
    gates = GATES if options.command == "validate" else (options.command,)
    reports = options.reports or root / "reports"
    try:
        choice = chosen_environments(root, options)
        if "schema" in gates:
            _check_runs(choice.repository)
    except DeclarationError as error:
        result = ValidationResult("fail", problems=error.problems, tool_version=__version__, gates=gates)
        report(result, reports, options.format, quiet=options.quiet)
        return exit_codes.USAGE
    names = choice.names
    try:
        observation = _observation_request(options, gates, choice.repository, names)
    except NotSeated as error:
        print(f"{error}", file=sys.stderr)
        return exit_codes.USAGE
    request = ValidationRequest(choice.repository, Workspace(root), len(names) >= BRIEF_FROM, gates, observation)
    with open_progress(names, quiet=options.quiet) as progress:
        if choice.note:
            progress.note(choice.note)
        results, interrupted = run_all(request, names, options.jobs or usable_cores(), progress, threading.Event())
    finished = set(results.names)
    result = ValidationResult(
        verdict=worst([*(one.verdict for one in results), *(("inconclusive",) if interrupted else ())]),
        environments=results,
        interrupted=interrupted,
        unfinished=tuple(name for name in names if name not in finished),
        seconds=time.monotonic() - started,
        tool_version=__version__,
        gates=gates,
        shard=choice.share,
    )
    report(result, reports, options.format, quiet=options.quiet)
    return exit_codes.INTERRUPTED if interrupted else exit_codes.OF_VERDICT[result.verdict]


def _observation_request(
    options: argparse.Namespace, gates: tuple[Gate, ...], repository: Repository, names: Sequence[str]
) -> ObservationRequest:
    """What is to be observed. Raises `NotSeated`."""
    harness, tasks, rollouts = (getattr(options, name, None) for name in ("harness", "tasks", "rollouts"))
    check_seat(harness, repository, names)
    request = ObservationRequest(
        allow_network=options.allow_network,
        use_cache=not options.no_cache,
        score="rewards" in gates,
        evaluate="smoke" in gates or "distribution" in gates,
        harness=harness,
        tasks=tasks,
        rollouts=rollouts,
    )
    if harness is tasks is rollouts is None:
        return request
    # what was asked for, and nothing that is kept for another gate
    return replace(request, evaluations=(options.command,))


def _check_runs(repository: Repository) -> None:
    """Raise `DeclarationError` where a declared training run fails its rules: it could not start."""
    if not repository.registry.specs:
        return
    from envops.training.declared_runs import run_problems

    problems = run_problems(repository.registry, repository.packages)
    if problems:
        raise DeclarationError(problems)
