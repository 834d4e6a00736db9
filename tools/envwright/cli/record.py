"""`envwright record`: evaluate once, and keep the rollouts and their baseline with the environment."""

from __future__ import annotations

import argparse
import datetime
import re
import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import beside_key
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.recordings import RecordedScore
from envwright.models.model_evaluation import (
    EvaluationSize,
    Judge,
    ModelEvaluation,
    OpenedTasks,
    RunRefused,
    evaluate_speaker,
    sampling_of,
)
from envwright.models.model_run import (
    EvaluationProgress,
    approve,
    breaking_off,
    check_judges,
    chosen,
    default_tasks,
    judge_cut_short,
    judge_of,
    refused_by,
    relay_to,
    requested_of,
    require_tasks,
    spent,
)
from envwright.models.relay import Relay
from envwright.packages.content import reward_digest
from envwright.packages.read_package import read_package
from envwright.packages.recordings import (
    MAX_BYTES,
    Packed,
    keep_from_hub,
    packed,
    secrets_in,
    without_places,
    write_recording,
)
from envwright.packages.repository import Repository
from envwright.reports.printing import print_message
from envwright.rules.engine import Subject
from envwright.statistics.baseline import measures
from envwright.statistics.intervals import coverage
from envwright.system.workspace import Workspace

EXAMPLES = """examples:
  envwright record gsm8k --model qwen3-30b --max-cost 0.50
  envwright record gsm8k --model qwen3-30b -n 20 -r 8
  envwright record gsm8k --model qwen3-30b --split eval     its held-out tasks, as a second recording
  envwright record gsm8k --policy blend            scripted, without a key
"""

MIN_COVERAGE = 0.9
"""The least share of rollouts with a reward that is worth keeping."""
SCRIPTED = "a scripted policy: it tests the pipeline and does not measure a model"


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command, changed=False)
    command.add_argument("-q", "--quiet", action="store_true", help="no progress")
    arguments.network(command, "environments", "they load")
    speaker = command.add_mutually_exclusive_group(required=True)
    arguments.model(command, speaker)
    speaker.add_argument("--policy", metavar="NAME", help="record a scripted policy instead, labelled as such")
    command.add_argument("--date", type=_date, metavar="YYYY-MM-DD", help="the baseline's date (default: today)")


def _date(text: str) -> str:
    return datetime.date.fromisoformat(text).isoformat()


@dataclass(frozen=True)
class RecordingRun:
    """The settings that all environments of a run share."""

    repository: Repository
    workspace: Workspace
    relay: Relay | None
    options: argparse.Namespace
    stop: threading.Event


def run(options: argparse.Namespace) -> int:
    """Record the named environments and return the exit code."""
    root = options.root.absolute()
    repository, names = chosen(options)
    repository = beside_key(repository, names)
    stop = threading.Event()
    if options.policy is not None:
        _record_all(RecordingRun(repository, Workspace(root), None, options, stop), names)
        return exit_codes.PASS
    check_judges(repository, names, scripted=options.scripted_judge)
    with relay_to(root, options) as relay:
        try:
            _record_all(RecordingRun(repository, Workspace(root), relay, options, stop), names)
        finally:
            print_message(spent(relay.spending, relay.endpoint))
    return exit_codes.PASS


def _record_all(shared: RecordingRun, names: tuple[str, ...]) -> None:
    for name in names:
        entry, package = shared.repository.registry.environments[name], shared.repository.packages[name]
        if keep_from_hub(package.folder):
            print_message(f"{name}: .gitignore now keeps recordings from the Hub; commit it with the recording")
            package = _read_again(package, shared.repository.root)
        _record(shared, entry, package)


def _read_again(package: Package, root: Path) -> Package:
    again = read_package(package.folder, root).package
    assert again is not None
    return again


def _record(shared: RecordingRun, entry: EnvironmentEntry, package: Package) -> None:
    endpoint = shared.relay.endpoint if shared.relay else None
    asked = requested_of(shared.options, endpoint, *default_tasks(package))
    evaluated = _evaluated(shared, entry, package, asked)
    _check_worth(shared, package, evaluated)
    root = shared.repository.root
    places = {str(shared.workspace.base): "<workspace>", str(root): "<repository>", str(Path.home()): "<home>"}
    rows = packed([without_places(row, places) for row in evaluated.rows])
    _check_packed(package, rows)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", shared.options.endpoint or shared.options.policy)
    name += "" if asked.split == "train" else f"--{asked.split}"
    baseline = _baseline(shared, entry, package, evaluated, rows, asked)
    written = write_recording(package.folder, name, rows, baseline)
    size = sum(path.stat().st_size for path in written)
    left = f"; {rows.left_out} more were left out to stay below {MAX_BYTES:,} bytes" if rows.left_out else ""
    print_message(f"{package.name}: {len(rows.rows)} rollouts, mean reward {baseline['mean']}, {size:,} bytes{left}")
    for path in written:
        print_message(f"  {path.relative_to(root)}")
    print_message(f"  next: git add {package.folder.relative_to(root)}; a run on it: envwright train {package.name}")


def _evaluated(
    shared: RecordingRun, entry: EnvironmentEntry, package: Package, asked: EvaluationSize
) -> ModelEvaluation:
    relay, options = shared.relay, shared.options

    def begin(opened: OpenedTasks) -> None:
        require_tasks(entry, opened, asked.split)
        if relay is not None:
            approve(entry, opened, relay, asked)

    meter = EvaluationProgress(package.name, None, relay, options.quiet)
    with breaking_off(package.name, shared.stop), _judge(shared, entry, package) as judge:
        evaluated = evaluate_speaker(
            entry,
            package,
            shared.workspace,
            relay or options.policy,
            asked,
            shared.stop,
            approve=begin,
            seen=meter.seen,
            judge=judge,
            allow_network=options.allow_network,
        )
        if cut_short := judge_cut_short(judge):
            raise RunRefused(f"{package.name}: {cut_short}; nothing was recorded", exit_codes.INCONCLUSIVE)
        return evaluated


def _judge(shared: RecordingRun, entry: EnvironmentEntry, package: Package) -> AbstractContextManager[Judge]:
    """The judge of a real model's replies; scripted policies have the scripted one."""
    if shared.relay is None:
        return nullcontext()
    return judge_of(shared.repository.root, entry, package, scripted=shared.options.scripted_judge)


def _check_worth(shared: RecordingRun, package: Package, evaluated: ModelEvaluation) -> None:
    """Raise `RunRefused` if the evaluation was cut short or has too few rewards: nothing is then written."""
    relay = shared.relay
    if relay is not None and relay.refusal is not None:
        raise refused_by(relay.refusal)
    if relay is not None and relay.ceiling_reached:
        message = f"{package.name}: cut short by the ceiling of ${relay.ceiling:g}; nothing was recorded"
        raise RunRefused(message, exit_codes.INCONCLUSIVE)
    scored = sum(row.scored for row in evaluated.rows)
    share = coverage(scored, sum(evaluated.facts.rollouts_asked.values()))
    if share < MIN_COVERAGE:
        errors = sorted({f"{row.error.type}: {row.error.message}"[:200] for row in evaluated.rows if row.error})
        text = f"\n  {errors[0]}" if errors else ""
        message = f"{package.name}: only {share:.0%} of the rollouts have a reward; nothing was recorded{text}"
        raise RunRefused(message, exit_codes.INCONCLUSIVE)


def _check_packed(package: Package, rows: Packed) -> None:
    if not rows.rows:
        message = f"{package.name}: the rollouts of a single task are over {MAX_BYTES:,} bytes; request fewer (-r)"
        raise RunRefused(message)
    if secrets_in(rows.rows):
        message = f"{package.name}: a rollout contains a text that looks like an API key; nothing was recorded"
        raise RunRefused(message, exit_codes.FAIL)


def _baseline(
    shared: RecordingRun,
    entry: EnvironmentEntry,
    package: Package,
    evaluated: ModelEvaluation,
    rows: Packed,
    asked: EvaluationSize,
) -> dict[str, Any]:
    relay, description = shared.relay, evaluated.facts.description
    assert description is not None
    scores = [
        RecordedScore(
            number,
            row.task,
            row.task_key,
            row.reward if row.scored else None,
            {name: score.score for name, score in row.functions.items()},
        )
        for number, row in enumerate(rows.rows, start=1)
    ]
    return {
        "version": 1,
        "environment": package.name,
        "package_version": package.version,
        "generation": description.generation,
        "verifiers": description.verifiers,
        "digest": package.digest,
        "reward_digest": reward_digest(entry, package),
        "speaker": "model" if relay else SCRIPTED,
        "policy": None if relay else shared.options.policy,
        "model": relay.endpoint.model if relay else None,
        "endpoint": relay.endpoint.name if relay else None,
        "sampling": sampling_of(relay.endpoint) if relay else {},
        "judge": rows.rows[0].judge,
        **({} if asked.split == "train" else {"split": asked.split}),
        "date": shared.options.date or datetime.datetime.now(datetime.UTC).date().isoformat(),
        "asked_tasks": asked.tasks,
        "asked_rollouts": asked.rollouts,
        "left_out": rows.left_out,
        "rows": rows.digest,
        **measures(scores, Subject(entry, package, evaluated.facts).range.share),
    }
