"""`envops validate` and its single gates: declare, observe, judge, report, for every environment."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from envops import __version__, exit_codes
from envops.commands.choosing import chosen_environments
from envops.commands.termination import terminated_like_interrupted
from envops.declare.lock import LOCK_FILE
from envops.declare.problem import DeclarationError
from envops.declare.repository import Repository
from envops.judge.engine import GATES, Gate, Subject
from envops.judge.recorded import baseline_for
from envops.judge.verdict import judge, worst
from envops.observe.facts import Facts, Failure
from envops.observe.fork_server import ForkServers
from envops.observe.observation import Watcher, observe
from envops.observe.remembering import Wish, remembered
from envops.observe.subprocesses import Interrupted
from envops.observe.timings import Timing, remember_timing
from envops.observe.venv import venv_key
from envops.observe.workspace import Workspace
from envops.report.progress import Progress, open_progress
from envops.report.result import EnvironmentResult, ValidationResult, broken_result, environment_result
from envops.report.written import print_result, tell_github, write_reports

PATIENCE_SECONDS = 2.0
"""After Ctrl-C, how long the workers' threads get to end their children."""


@dataclass(frozen=True)
class Run:
    """Everything that is the same for all environments of one run."""

    repository: Repository
    workspace: Workspace
    gates: tuple[Gate, ...]
    wish: Wish
    progress: Progress
    stop: threading.Event
    servers: ForkServers


def run(options: argparse.Namespace) -> int:
    """Validate the chosen environments and return the exit code."""
    elsewhere = any(getattr(options, name, None) is not None for name in ("results", "endpoint"))
    if elsewhere and options.shard is not None:
        print("--shard divides the scripted gates: it does not go with --results or --endpoint", file=sys.stderr)
        return exit_codes.USAGE
    if getattr(options, "results", None) is not None:
        from envops.commands.results_gate import run as run_on_results

        return run_on_results(options)
    if getattr(options, "endpoint", None) is not None:
        from envops.commands.model_gate import run as run_with_model

        return run_with_model(options)
    if any(getattr(options, name, None) is not None for name in ("tasks", "rollouts", "max_cost")):
        print("-n, -r and --max-cost belong to --endpoint NAME", file=sys.stderr)
        return exit_codes.USAGE
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
        _report(result, options, reports)
        return exit_codes.USAGE
    names = choice.names
    wish = Wish(
        allow_network=options.allow_network,
        use_cache=not options.no_cache,
        score="rewards" in gates,
        evaluate="smoke" in gates or "distribution" in gates,
    )
    stop = threading.Event()
    with open_progress(names, quiet=options.quiet) as progress:
        if choice.note:
            progress.note(choice.note)
        workspace = Workspace(root)
        packages = [choice.repository.packages[name] for name in names]
        sharing = Counter(venv_key(package.folder / LOCK_FILE) for package in packages)
        with ForkServers(workspace, sharing, stop) as servers:
            shared = Run(choice.repository, workspace, gates, wish, progress, stop, servers)
            results, interrupted = _validate_all(shared, names, options.jobs or os.cpu_count() or 1)
    result = ValidationResult(
        verdict=worst([*(one.verdict for one in results), *(("inconclusive",) if interrupted else ())]),
        environments=tuple(results),
        interrupted=interrupted,
        unfinished=tuple(name for name in names if name not in {one.name for one in results}),
        seconds=time.monotonic() - started,
        tool_version=__version__,
        gates=gates,
        shard=choice.share,
    )
    _report(result, options, reports)
    return exit_codes.INTERRUPTED if interrupted else exit_codes.OF_VERDICT[result.verdict]


def _check_runs(repository: Repository) -> None:
    """Raise `DeclarationError` where a declared training run fails its rules: it could not start."""
    if not repository.registry.specs:
        return
    from envops.act.training.declared import run_problems

    problems = run_problems(repository.registry, repository.packages)
    if problems:
        raise DeclarationError(problems)


def _validate_all(shared: Run, names: Sequence[str], jobs: int) -> tuple[list[EnvironmentResult], bool]:
    """Results in the order of the names, and whether the run was cut short."""
    interrupted = False
    with terminated_like_interrupted(), ThreadPoolExecutor(max(1, min(jobs, len(names)))) as pool:
        futures = {name: pool.submit(_validate_one, shared, name) for name in names}
        try:
            while wait(futures.values(), timeout=0.2).not_done:
                pass
        except KeyboardInterrupt:
            interrupted = True
            shared.stop.set()
            for future in futures.values():
                future.cancel()
            wait(futures.values(), timeout=PATIENCE_SECONDS)
    return [result for name in names if (result := _result_of(futures[name])) is not None], interrupted


def _result_of(future: Future[EnvironmentResult | None]) -> EnvironmentResult | None:
    return None if future.cancelled() or not future.done() else future.result()


def _validate_one(shared: Run, name: str) -> EnvironmentResult | None:
    """One environment from facts to verdict; `None` when the run was cut short.

    Whatever goes wrong here is an `error` of this environment alone.
    """
    started = time.monotonic()
    entry = shared.repository.registry.environments[name]
    package = shared.repository.packages[name]
    try:
        facts, cached = _facts(shared, name)
        recorded = [one.baseline for one in facts.recordings if not one.problems]
        baseline = baseline_for(recorded, facts)
        judgement = judge(Subject(entry, package, facts, baseline=baseline), shared.gates)
        seconds = time.monotonic() - started
        root = shared.repository.root
        result = environment_result(package, facts, judgement, root=root, cached=cached, seconds=seconds)
    except Interrupted:
        return None
    except Exception as error:
        failure = Failure("infrastructure", type(error).__name__, str(error), None, traceback.format_exc())
        folder = f"environments/{entry.folder_name}"
        result = broken_result(name, folder, failure, stage="load", seconds=time.monotonic() - started)
    shared.progress.finished(result)
    return result


def _facts(shared: Run, name: str) -> tuple[Facts, bool]:
    entry = shared.repository.registry.environments[name]
    package = shared.repository.packages[name]
    known = remembered(entry, package, shared.workspace, shared.wish)
    if known is not None:
        shared.progress.cached(name)
        if shared.wish.evaluate:
            from envops.observe.recording_refresh import with_recordings

            network, stop = shared.wish.allow_network, shared.stop
            known = with_recordings(known, entry, package, shared.workspace, network, stop)
        return known, True
    shared.progress.started(name)
    watcher = Watcher(
        stage=lambda stage: shared.progress.stage(name, stage),
        advance=lambda done, total: shared.progress.advance(name, done, total),
        detail=lambda text: shared.progress.detail(name, text),
    )
    facts = observe(entry, package, shared.workspace, shared.wish, watcher, shared.stop, shared.servers)
    if shared.wish.score and shared.wish.evaluate:
        remember_timing(name, Timing(sum(facts.seconds.values()), facts.memory), shared.workspace)
    return facts, False


def _report(result: ValidationResult, options: argparse.Namespace, folder: Path) -> None:
    """Write and print; a report that cannot be written is said, and does not change the verdict."""
    written: tuple[Path, ...] = ()
    try:
        written = write_reports(result, folder)
    except (OSError, ExceptionGroup) as error:
        print(f"the reports could not be written to {folder}: {error}", file=sys.stderr)
    print_result(result, options.format, reports=written, quiet=options.quiet)
    tell_github(result)
