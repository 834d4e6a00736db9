"""`envwright smoke` and `envwright distribution` with `--model`: the gate with a real model."""

from __future__ import annotations

import argparse
import math
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from envwright_worker.splits import Split

from envwright import __version__, exit_codes
from envwright.cli.selection import beside_key, check_harness, chosen_environments, with_flags
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.observed import Facts
from envwright.facts.results import ResultsWriter
from envwright.facts.stages import StageName
from envwright.models.model_evaluation import (
    Judge,
    ModelEvaluation,
    OpenedTasks,
    evaluate_speaker,
    judge_name,
)
from envwright.models.model_run import (
    DEFAULT_CEILING,
    EvaluationProgress,
    approve,
    check_judges,
    chosen,
    judge_cut_short,
    judge_of,
    refused_by,
    relay_to,
    requested_of,
    spent,
)
from envwright.models.relay import Relay
from envwright.observing.job import StageFailed
from envwright.packages.recordings import read_recordings
from envwright.packages.repository import Repository
from envwright.reports.printing import print_message
from envwright.reports.written import report
from envwright.rules.engine import Gate, Subject, Verdict
from envwright.rules.result import EnvironmentResult, ValidationResult, environment_result
from envwright.rules.settings import set_severities
from envwright.rules.verdict import GateVerdict, Judgement, judge, worst
from envwright.statistics.baseline import baseline_for
from envwright.system.subprocesses import Interrupted, ProgramFailed
from envwright.system.workspace import Workspace
from envwright.text.visible_text import on_one_line

PLAYED: Mapping[Gate, StageName] = {"smoke": "smoke", "distribution": "distribution"}


@dataclass(frozen=True)
class ModelRun:
    """The settings that all environments of a model run share."""

    repository: Repository
    workspace: Workspace
    gate: Gate
    relay: Relay
    reports: Path
    options: argparse.Namespace
    stop: threading.Event


def run_with_model(options: argparse.Namespace) -> int:
    """Evaluate the named environments with the model and return the exit code."""
    started = time.monotonic()
    root = options.root.absolute()
    repository, names = _chosen(root, options)
    check_harness(options.harness, repository, names)
    check_judges(repository, names, scripted=options.scripted_judge)
    with relay_to(root, options) as relay:
        reports = options.reports or root / "reports"
        shared = ModelRun(repository, Workspace(root), options.command, relay, reports, options, threading.Event())
        results = [_evaluated(shared, name) for name in names]
        print_message(spent(relay.spending, relay.endpoint))
        refusal = relay.refusal
    result = ValidationResult(
        verdict=worst(one.verdict for one in results),
        environments=tuple(results),
        seconds=time.monotonic() - started,
        tool_version=__version__,
        gates=(options.command,),
        endpoint=options.endpoint,
        split=options.split or "train",
        rules=set_severities(repository.registry.rules),
    )
    if result.verdict == "pass" and len(names) == 1 and options.env_args is None:
        then = "distribution" if options.command == "smoke" else "record"
        result = replace(result, next_command=f"envwright {then} {names[0]} --model {options.endpoint}")
    report(result, reports, options.format, quiet=options.quiet, verbose=options.verbose)
    if refusal is not None:
        refusal_note = refused_by(refusal)
        print_message(f"{refusal_note}")
        return refusal_note.code
    return exit_codes.OF_VERDICT[result.verdict]


def _chosen(root: Path, options: argparse.Namespace) -> tuple[Repository, tuple[str, ...]]:
    """The environments that are named or changed."""
    if options.changed is None:
        repository, names = chosen(options)
    else:
        choice = chosen_environments(root, options)
        repository, names = choice.repository, choice.names
    repository = with_flags(repository, names, options)
    approved = DEFAULT_CEILING if options.max_cost is None else options.max_cost
    return beside_key(repository, names, math.inf if approved == "none" else float(approved)), names


def _evaluated(shared: ModelRun, name: str) -> EnvironmentResult:
    started, before = time.monotonic(), shared.relay.spending
    entry = shared.repository.registry.environments[name]
    package = shared.repository.packages[name]
    tasks, rollouts = _wanted(entry, shared.gate)
    asked = requested_of(shared.options, shared.relay.endpoint, tasks, rollouts)
    of_split = "" if asked.split == "train" else f"--{asked.split}"
    of_split += "" if shared.options.env_args is None else "--variant"
    path = shared.reports / "rollouts" / f"{name}--{shared.relay.endpoint.name}{of_split}.jsonl".replace("/", "_")

    root, name_of_judge = shared.repository.root, None
    meter = EvaluationProgress(name, None, shared.relay, shared.options.quiet)
    files = ExitStack()

    def begin(opened: OpenedTasks) -> None:
        approve(entry, opened, shared.relay, asked)
        path.unlink(missing_ok=True)  # only now is it certain that no other run writes there
        meter.writer = files.enter_context(ResultsWriter(path))

    try:
        with files, judge_of(root, entry, package, scripted=shared.options.scripted_judge) as replying:
            name_of_judge = judge_name(replying)
            evaluated = evaluate_speaker(
                entry,
                package,
                shared.workspace,
                shared.relay,
                asked,
                shared.stop,
                approve=begin,
                seen=meter.seen,
                judge=replying,
                allow_network=shared.options.allow_network,
            )
        print_message(f"{meter.line(meter.rows)}; every rollout is in {path}")
        judgement = _judged(shared, entry, package, evaluated, replying, asked.split)
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
    result = environment_result(package, facts, judgement, root=root, cached=False, seconds=seconds)
    spending = shared.relay.spending.since(before)
    return replace(result, spending=spending, judge=name_of_judge, env_args=shared.options.env_args)


def _wanted(entry: EnvironmentEntry, gate: Gate) -> tuple[int, int]:
    smoke, spread = entry.gates.smoke, entry.gates.distribution
    if gate == "smoke":
        return smoke.tasks, smoke.rollouts
    return spread.tasks, max(spread.group_size, ceil(spread.min_rollouts / spread.tasks))


def _judged(
    shared: ModelRun,
    entry: EnvironmentEntry,
    package: Package,
    evaluated: ModelEvaluation,
    replying: Judge,
    split: Split,
) -> Judgement:
    """The gate's judgement; a run that was cut short proves nothing."""
    facts = evaluated.facts
    known = [one.baseline for one in read_recordings(package.folder) if not one.problems]
    judge_here = judge_name(replying) or "scripted"  # recordings that name none were judged by it
    recorded = [each for each in known if (each.get("judge") or "scripted") == judge_here]
    baseline = baseline_for(recorded, facts, split)
    judgement = judge(Subject(entry, package, facts, baseline=baseline), [shared.gate])
    spending = shared.relay.spending
    if shared.relay.refusal is not None:
        return _overruled(judgement, shared.gate, "error", on_one_line(str(shared.relay.refusal)))
    if shared.relay.ceiling_reached:
        reason = f"cut short by the ceiling of ${shared.relay.ceiling:g}: {spending.refused} calls were not made"
        return _overruled(judgement, shared.gate, "inconclusive", reason)
    if cut_short := judge_cut_short(replying):
        return _overruled(judgement, shared.gate, "inconclusive", cut_short)
    return judgement


def _overruled(judgement: Judgement, gate: Gate, verdict: Verdict, reason: str) -> Judgement:
    return replace(judgement, verdict=verdict, gates={gate: GateVerdict(gate, verdict, reason)})
