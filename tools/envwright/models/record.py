"""`envwright record`: one evaluation of each environment, kept beside it as rollouts and their baseline."""

from __future__ import annotations

import datetime
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from envwright_worker.policies import policy_named
from envwright_worker.policies.policy import UnknownPolicy
from envwright_worker.policies.table import blend_named, is_blend

from envwright import exit_codes
from envwright.exit_codes import CommandError
from envwright.facts.recordings import RecordedScore
from envwright.models.model_evaluation import (
    EvaluationSettings,
    EvaluationSize,
    EvaluationTarget,
    ModelEvaluation,
    sampling_of,
)
from envwright.models.model_run import (
    breaking_off,
    check_judges,
    default_tasks,
    evaluate,
    refuse_cut_short,
    relay_to,
    requested_of,
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

MIN_COVERAGE = 0.9
"""The least share of rollouts with a reward that is worth keeping."""
SCRIPTED = "a scripted policy: it tests the pipeline and does not measure a model"


def record(
    repository: Repository,
    names: tuple[str, ...],
    settings: EvaluationSettings,
    model: str | None,
    policy: str | None,
    date: str | None,
) -> None:
    """Record the environments with the model at an endpoint, or with a scripted policy. Raises `CommandError`."""
    if policy is None:
        check_judges(repository, names, scripted=settings.scripted_judge)
    else:
        _refuse_unknown(policy)
    with relay_to(repository.root, str(model), settings) if policy is None else nullcontext(policy) as speaker:
        for name in names:
            entry, package = repository.registry.environments[name], repository.packages[name]
            if keep_from_hub(package.folder):
                print_message(f"{name}: .gitignore now keeps recordings from the Hub; commit it with the recording")
                again = read_package(package.folder, repository.root).package
                assert again is not None
                package = again
            target = EvaluationTarget(repository.root, entry, package, settings)
            _record(target, speaker, str(model or policy), date)


def _refuse_unknown(policy: str) -> None:
    try:
        _ = blend_named(policy) if is_blend(policy) else policy_named(policy)
    except UnknownPolicy as error:
        raise CommandError(f"unknown policy: {error}; docs/policies.md lists all, and blend mixes them") from None


def _record(target: EvaluationTarget, speaker: Relay | str, label: str, date: str | None) -> None:
    package, root = target.package, target.root
    endpoint = speaker.endpoint if isinstance(speaker, Relay) else None
    size = requested_of(target.settings, endpoint, *default_tasks(package))
    with breaking_off(package.name, target.stop):
        evaluated = evaluate(target, speaker, size)
    _check_worth(target, speaker, evaluated)
    places = {str(target.workspace.base): "<workspace>", str(root): "<repository>", str(Path.home()): "<home>"}
    rows = packed([without_places(row, places) for row in evaluated.rows])
    if not rows.rows:
        message = f"{package.name}: the rollouts of a single task are over {MAX_BYTES:,} bytes; request fewer (-r)"
        raise CommandError(message)
    if secrets_in(rows.rows):
        message = f"{package.name}: a rollout contains a text that looks like an API key; nothing was recorded"
        raise CommandError(message, exit_codes.FAIL)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", label)
    name += "" if size.split == "train" else f"--{size.split}"
    baseline = _baseline(target, speaker, evaluated, rows, size, date)
    written = write_recording(package.folder, name, rows, baseline)
    total = sum(path.stat().st_size for path in written)
    left = f"; {rows.left_out} more were left out to stay below {MAX_BYTES:,} bytes" if rows.left_out else ""
    print_message(f"{package.name}: {len(rows.rows)} rollouts, mean reward {baseline['mean']}, {total:,} bytes{left}")
    for path in written:
        print_message(f"  {path.relative_to(root)}")
    print_message(f"  next: git add {package.folder.relative_to(root)}; a run on it: envwright train {package.name}")


def _check_worth(target: EvaluationTarget, speaker: Relay | str, evaluated: ModelEvaluation) -> None:
    """Raise `CommandError` if the evaluation was cut short or has too few rewards: nothing is then written."""
    name, nothing = target.package.name, "; nothing was recorded"
    refuse_cut_short(name, speaker if isinstance(speaker, Relay) else None, evaluated.judge, nothing)
    share = coverage(sum(row.scored for row in evaluated.rows), sum(evaluated.facts.rollouts_asked.values()))
    if share < MIN_COVERAGE:
        errors = sorted({f"{row.error.type}: {row.error.message}"[:200] for row in evaluated.rows if row.error})
        text = f"\n  {errors[0]}" if errors else ""
        message = f"{name}: only {share:.0%} of the rollouts have a reward{nothing}{text}"
        raise CommandError(message, exit_codes.INCONCLUSIVE)


def _baseline(
    target: EvaluationTarget,
    speaker: Relay | str,
    evaluated: ModelEvaluation,
    rows: Packed,
    size: EvaluationSize,
    date: str | None,
) -> dict[str, Any]:
    entry, package, description = target.entry, target.package, evaluated.facts.description
    endpoint = speaker.endpoint if isinstance(speaker, Relay) else None
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
        "speaker": "model" if endpoint else SCRIPTED,
        "policy": None if endpoint else speaker,
        "model": endpoint.model if endpoint else None,
        "endpoint": endpoint.name if endpoint else None,
        "sampling": sampling_of(endpoint) if endpoint else {},
        "judge": rows.rows[0].judge,
        **({} if size.split == "train" else {"split": size.split}),
        "date": date or datetime.datetime.now(datetime.UTC).date().isoformat(),
        "asked_tasks": size.tasks,
        "asked_rollouts": size.rollouts,
        "left_out": rows.left_out,
        "rows": rows.digest,
        **measures(scores, Subject(entry, package, evaluated.facts).range.share),
    }
