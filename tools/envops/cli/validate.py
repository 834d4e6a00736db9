"""`envops validate` and its single gates: observe the chosen environments, judge them, and report.

`smoke` and `distribution` take `--endpoint` as well: then a real model answers instead of the scripted policies.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from envops import __version__, exit_codes
from envops.cli import arguments
from envops.cli.selection import chosen_environments
from envops.facts.observed import Facts, Stage
from envops.facts.results import ResultsWriter
from envops.models.model_evaluation import Evaluated, Opened, evaluate_speaker
from envops.models.model_run import Meter, Refused, approve, asked_of, chosen, refused_by, relay_to, say, spent
from envops.models.relay import Relay
from envops.reports.open_progress import open_progress
from envops.reports.written import report
from envops.repository.package import Package
from envops.repository.problem import DeclarationError
from envops.repository.recordings import read_recordings
from envops.repository.registry import EnvironmentEntry
from envops.repository.repository import Repository
from envops.repository.workspace import Workspace
from envops.rules.engine import GATES, Gate, Subject, Verdict
from envops.rules.result import EnvironmentResult, ValidationResult, environment_result
from envops.rules.verdict import GateVerdict, Judgement, judge, worst
from envops.statistics.recorded import baseline_for
from envops.system.capacity import usable_cores
from envops.system.subprocesses import Interrupted, ProgramFailed
from envops.text.visible_text import on_one_line
from envops.validation.job import StageFailed
from envops.validation.judging import BRIEF_FROM, Question
from envops.validation.requests import Wish
from envops.validation.running import run_all

_ON_ALL = """examples:
  envops {name}                        every environment of the registry
  envops {name} reverse-text gsm8k     these two
  envops {name} --changed              what differs from the main branch
  envops {name} --changed HEAD~1       what differs from a commit
  envops {name} --format json --quiet  for machines
"""
_WITH_A_MODEL = "  envops {name} gsm8k --endpoint qwen3-30b --max-cost 0.50\n"
EXAMPLES = {
    name: _ON_ALL.format(name=name) + (_WITH_A_MODEL.format(name=name) if name in ("smoke", "distribution") else "")
    for name in ("validate", *GATES)
}
PLAYED: Mapping[Gate, Stage] = {"smoke": "smoke", "distribution": "distribution"}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The arguments of all gates, and those of a real model where the gate plays rollouts."""
    arguments.selection(command)
    arguments.printed(command, "markdown")
    command.add_argument("--quiet", action="store_true", help="no progress, and only what decides the verdict")
    command.add_argument("--no-cache", action="store_true", help="observe again even where nothing changed")
    arguments.network(command, "environments", "they load")
    command.add_argument(
        "--jobs", type=arguments.positive, metavar="N", help="environments at the same time (default: cores)"
    )
    who = command.add_mutually_exclusive_group()
    who.add_argument(
        "--shard",
        type=_shard,
        metavar="K/N",
        help="only the K-th of N parts of equal work; envops report merge joins them",
    )
    arguments.reports(command)
    if command.get_default("command") in PLAYED:
        arguments.model(command, speaker=who)
        command.add_argument(
            "--harness",
            metavar="NAME",
            help="v1: let another harness play: null, bash, or one of a package in the lock; those that install "
            "themselves need --allow-network the first time (default: one in the worker that needs no network)",
        )


def _shard(text: str) -> tuple[int, int]:
    index, _, of = text.partition("/")
    if not 1 <= int(index) <= int(of):
        raise argparse.ArgumentTypeError("must be K/N with K from 1 to N")
    return int(index), int(of)


def run(options: argparse.Namespace) -> int:
    """Validate the chosen environments and return the exit code."""
    if getattr(options, "endpoint", None) is not None:
        return _run_with_model(options)
    if getattr(options, "max_cost", None) is not None:
        print("--max-cost needs --endpoint NAME: scripted policies cost nothing", file=sys.stderr)
        return exit_codes.USAGE
    return _run_scripted(options)


class HarnessUnsupported(Exception):
    """The message names the environments that no harness can play."""


def check_harness(harness: str | None, repository: Repository, names: Iterable[str]) -> None:
    """Raise `HarnessUnsupported` where a harness is wanted and an environment is of v0."""
    without = [name for name in names if repository.packages[name].generation == "v0"]
    if harness is not None and without:
        raise HarnessUnsupported(f"--harness requires a v1 environment; {', '.join(without)} is v0")


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
        wish = _wish(options, gates, choice.repository, names)
    except HarnessUnsupported as error:
        print(f"{error}", file=sys.stderr)
        return exit_codes.USAGE
    question = Question(choice.repository, Workspace(root), len(names) >= BRIEF_FROM, gates, wish)
    with open_progress(names, quiet=options.quiet) as progress:
        if choice.note:
            progress.note(choice.note)
        results, interrupted = run_all(question, names, options.jobs or usable_cores(), progress, threading.Event())
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


def _wish(options: argparse.Namespace, gates: tuple[Gate, ...], repository: Repository, names: Sequence[str]) -> Wish:
    """What is to be observed. Raises `HarnessUnsupported`."""
    harness, tasks, rollouts = (getattr(options, name, None) for name in ("harness", "tasks", "rollouts"))
    check_harness(harness, repository, names)
    wish = Wish(
        allow_network=options.allow_network,
        use_cache=not options.no_cache,
        score="rewards" in gates,
        evaluate="smoke" in gates or "distribution" in gates,
        harness=harness,
        tasks=tasks,
        rollouts=rollouts,
    )
    if harness is tasks is rollouts is None:
        return wish
    # what was asked for, and nothing that is kept for another gate
    return replace(wish, evaluations=(options.command,))


def _check_runs(repository: Repository) -> None:
    """Raise `DeclarationError` where a declared training run fails its rules: it could not start."""
    if not repository.registry.specs:
        return
    from envops.training.declared_runs import run_problems

    problems = run_problems(repository.registry, repository.packages)
    if problems:
        raise DeclarationError(problems)


@dataclass(frozen=True)
class ModelRun:
    """What is the same for all environments of a run with a model."""

    repository: Repository
    workspace: Workspace
    gate: Gate
    relay: Relay
    reports: Path
    options: argparse.Namespace
    stop: threading.Event


def _run_with_model(options: argparse.Namespace) -> int:
    """Evaluate the named environments with the model and return the exit code."""
    started = time.monotonic()
    root = options.root.absolute()
    try:
        repository, names = chosen(options)
        check_harness(options.harness, repository, names)
        with relay_to(root, options) as relay:
            reports = options.reports or root / "reports"
            shared = ModelRun(repository, Workspace(root), options.command, relay, reports, options, threading.Event())
            results = [_evaluated(shared, name) for name in names]
            say(spent(relay.spending, relay.endpoint))
            refusal = relay.refusal
    except HarnessUnsupported as error:
        say(f"{error}")
        return exit_codes.USAGE
    except Refused as error:
        say(f"{error}")
        return error.code
    result = ValidationResult(
        verdict=worst(one.verdict for one in results),
        environments=tuple(results),
        seconds=time.monotonic() - started,
        tool_version=__version__,
        gates=(options.command,),
        endpoint=options.endpoint,
    )
    report(result, reports, options.format, quiet=options.quiet)
    if refusal is not None:
        said = refused_by(refusal)
        say(f"{said}")
        return said.code
    return exit_codes.OF_VERDICT[result.verdict]


def _evaluated(shared: ModelRun, name: str) -> EnvironmentResult:
    started, before = time.monotonic(), shared.relay.spending
    entry = shared.repository.registry.environments[name]
    package = shared.repository.packages[name]
    tasks, rollouts = _wanted(entry, shared.gate)
    asked = asked_of(shared.options, shared.relay.endpoint, tasks, rollouts)
    path = shared.reports / "rollouts" / f"{name}--{shared.relay.endpoint.name}.jsonl".replace("/", "_")

    meter = Meter(name, None, shared.relay, shared.options.quiet)
    files = ExitStack()

    def begin(opened: Opened) -> None:
        approve(entry, opened, shared.relay, asked)
        path.unlink(missing_ok=True)  # only now is it sure that no other run writes there
        meter.writer = files.enter_context(ResultsWriter(path))

    try:
        with files:
            evaluated = evaluate_speaker(
                entry,
                package,
                shared.workspace,
                shared.relay,
                asked,
                shared.stop,
                approve=begin,
                seen=meter.seen,
                allow_network=shared.options.allow_network,
            )
        say(f"{meter.line(meter.rows)}; every rollout is in {path}")
        judgement = _judged(shared, entry, package, evaluated)
        facts = evaluated.facts
    except KeyboardInterrupt:
        shared.stop.set()
        raise
    except Interrupted:
        raise KeyboardInterrupt from None
    except (StageFailed, ProgramFailed) as error:
        stage = PLAYED[shared.gate] if error.failure.kind == "harness" else "load"
        facts = Facts(entry.name, "", package.digest, failures={stage: error.failure})
        judgement = judge(Subject(entry, package, facts), [shared.gate])
    seconds = time.monotonic() - started
    result = environment_result(package, facts, judgement, root=shared.repository.root, cached=False, seconds=seconds)
    return replace(result, spending=shared.relay.spending.since(before))


def _wanted(entry: EnvironmentEntry, gate: Gate) -> tuple[int, int]:
    smoke, spread = entry.gates.smoke, entry.gates.distribution
    if gate == "smoke":
        return smoke.tasks, smoke.rollouts
    return spread.tasks, max(spread.group_size, ceil(spread.min_rollouts / spread.tasks))


def _judged(shared: ModelRun, entry: EnvironmentEntry, package: Package, evaluated: Evaluated) -> Judgement:
    """The gate's judgement; a run that its ceiling or the endpoint cut short proves nothing."""
    facts = evaluated.facts
    recorded = [one.baseline for one in read_recordings(package.folder) if not one.problems]
    baseline = baseline_for(recorded, facts)
    judgement = judge(Subject(entry, package, facts, baseline=baseline), [shared.gate])
    spending = shared.relay.spending
    if shared.relay.refusal is not None:
        return _overruled(judgement, shared.gate, "error", on_one_line(str(shared.relay.refusal)))
    if shared.relay.ceiling_reached:
        reason = f"cut short by the ceiling of ${shared.relay.ceiling:g}: {spending.refused} calls were not made"
        return _overruled(judgement, shared.gate, "inconclusive", reason)
    return judgement


def _overruled(judgement: Judgement, gate: Gate, verdict: Verdict, reason: str) -> Judgement:
    return replace(judgement, verdict=verdict, gates={gate: GateVerdict(gate, verdict, reason)})
