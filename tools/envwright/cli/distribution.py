"""The distribution gate on rollouts from elsewhere, and on an evaluation by Prime Intellect's platform."""

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
from envwright.declarations.endpoints import PRIME_KEY, Endpoint
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.limits import LOAD_SECONDS
from envwright.facts.observed import Dataset, Facts, Task
from envwright.facts.stages import needed_by
from envwright.hub.access import HubAccess, HubUnavailable, Prime, the_platform
from envwright.hub.evaluations import EvaluationsUnreadable, read_samples
from envwright.hub.state import read_hub
from envwright.models.hosted_evaluation import (
    HostedRequest,
    HostedSide,
    followed,
    imported,
    submitted,
    write_samples,
)
from envwright.models.import_results import Expected, Imported, NoResults, import_results, print_problems
from envwright.models.model_evaluation import MOST_TASKS_ELSEWHERE, EvaluationSize, OpenedTasks, RunRefused, sampling_of
from envwright.models.model_run import approve_bound, ceiling_of, requested_of
from envwright.models.prime_inference import endpoint_named
from envwright.observing.job import StageFailed, checked
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.opened_environment import opened_environment
from envwright.packages.repository import Repository
from envwright.release.plan import Desired, desired_of
from envwright.reports.printing import print_message
from envwright.reports.written import report
from envwright.rules.engine import Subject
from envwright.rules.result import ValidationResult, environment_result
from envwright.rules.verdict import judge
from envwright.system.subprocesses import Interrupted, ProgramFailed, terminated_like_interrupted
from envwright.system.workspace import Workspace

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

STAGES = needed_by("smoke", "distribution")
LOOK_SECONDS = 10.0


def add_arguments_results(command: argparse.ArgumentParser) -> None:
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


def run_results(options: argparse.Namespace) -> int:
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
    """Start the evaluation, import and judge its results, and return the exit code."""
    root = options.root.absolute()
    stop = threading.Event()
    try:
        with terminated_like_interrupted():
            folder = _evaluated(root, options, stop)
    except HubUnavailable as error:
        print_message(f"{error}")
        return exit_codes.ERROR
    except (StageFailed, ProgramFailed) as error:
        print_message(f"the environment cannot be loaded here: {error.failure.type}: {error.failure.message}")
        return exit_codes.ERROR
    except KeyboardInterrupt:
        print_message("the evaluation continues on the platform; the same command follows it again at no further cost")
        raise
    print_message(f"every rollout is in {folder}")
    return judge_results(options.name, folder, options)


def _evaluated(root: Path, options: argparse.Namespace, stop: threading.Event) -> Path:
    """The folder with the results of the platform's evaluation. Raises `RunRefused` and other errors."""
    repository = Repository.load(root, [options.name])
    (name,) = repository.select([options.name])
    repository = beside_key(repository, [name])
    entry, package = repository.registry.environments[name], repository.packages[name]
    endpoint = endpoint_named(root, options.endpoint)
    if endpoint.key_variable != PRIME_KEY:
        raise RunRefused(
            f"hosted evaluations use Prime Inference (key {PRIME_KEY}); {endpoint.name} is another endpoint"
        )
    ceiling = ceiling_of(options, endpoint)
    prime, access = the_platform()
    desired = desired_of(entry, package)
    _check_published(prime, access, desired, stop)
    tasks, asked = _approved(entry, package, Workspace(root), options, endpoint, ceiling, stop)
    request = HostedRequest(
        desired,
        endpoint.model,
        asked.tasks,
        asked.rollouts,
        asked.max_concurrent,
        sampling_of(endpoint),
        dict(entry.args),
        asked.seconds,
    )
    side = HostedSide(prime, access, root / ".envwright" / "hosted", stop, look_seconds=LOOK_SECONDS)
    folder = (
        (options.reports or root / "reports") / "rollouts" / f"{entry.name}--{endpoint.name}--hosted".replace("/", "_")
    )
    _fetch(request, side, folder, tasks, endpoint, again=options.no_cache)
    return folder


def _fetch(
    request: HostedRequest,
    side: HostedSide,
    folder: Path,
    tasks: dict[int, Task],
    endpoint: Endpoint,
    *,
    again: bool,
) -> None:
    """Start the evaluation, and record its outcome."""
    try:
        evaluation, new = submitted(request, side, again=again)
        print_message(f"{evaluation.name}: {'submitted' if new else 'there already'} as {evaluation.id}")
        evaluation = followed(evaluation, request, side, print_message)
        samples = read_samples(side.prime, side.access, evaluation.id, side.stop)
    except Interrupted:
        raise KeyboardInterrupt from None
    print_message(f"{evaluation.name}: complete, {len(samples)} samples of {request.tasks * request.rollouts}")
    about = {
        "env_id": request.desired.address,
        "model": request.model,
        "num_examples": request.tasks,
        "rollouts_per_example": request.rollouts,
        "sampling_args": dict(request.sampling),
        "base_url": endpoint.url,
        "evaluation_id": evaluation.id,
        "content_hash": request.desired.content_hash,
    }
    write_samples(folder, samples, tasks, about)
    imported(request, side)


def _check_published(prime: Prime, access: HubAccess, desired: Desired, stop: threading.Event) -> None:
    """Raise `RunRefused` unless the Hub's latest version has exactly the local content: the platform evaluates that
    version."""
    reading = read_hub(prime, access, [desired.address], stop).readings[desired.address]
    found = reading.environment
    if reading.standing == "unreadable":
        raise EvaluationsUnreadable(f"{desired.address} cannot be read on the Hub: {reading.why}")
    if found is None or not found.version:
        why = reading.why or "nothing is published there"
        raise RunRefused(
            f"{desired.address} is not on the Hub: {why}\nPublish it first: envwright release {desired.name}"
        )
    if (found.content_hash, found.version) != (desired.content_hash, desired.version):
        there, here = f"{found.version} ({found.content_hash[:12]})", f"{desired.version} ({desired.content_hash[:12]})"
        raise RunRefused(
            f"the platform evaluates the latest version, which differs from this package: the Hub has {there}, "
            f"here is {here}.\nPublish it first (envwright release {desired.name}), or check out the published content."
        )


def _approved(
    entry: EnvironmentEntry,
    package: Package,
    workspace: Workspace,
    options: argparse.Namespace,
    endpoint: Endpoint,
    ceiling: float | None,
    stop: threading.Event,
) -> tuple[dict[int, Task], EvaluationSize]:
    """The tasks that are known by number, and the size of the evaluation; the bound was shown and fits."""
    gate = entry.gates.distribution
    asked = requested_of(options, endpoint, gate.tasks, gate.group_size, MOST_TASKS_ELSEWHERE)
    with opened_environment(entry, package, workspace, options.allow_network, stop) as opened:
        parts = list(opened.worker.request("tasks", LOAD_SECONDS, keep=asked.tasks))
    tasks = [checked(Task, value) for kind, value in parts if kind == "task"]
    splits = [checked(Dataset, value) for kind, value in parts if kind == "dataset"]
    asked = EvaluationSize(min(asked.tasks, len(tasks)), asked.rollouts, asked.max_concurrent, asked.seconds)
    approve_bound(entry, OpenedTasks(opened.description, tuple(tasks[: asked.tasks])), asked, endpoint, ceiling)
    print_message("the platform does not enforce --max-cost: the evaluation can cost up to that bound")
    return {task.index: task for task in tasks} if len(splits) == 1 else {}, asked
