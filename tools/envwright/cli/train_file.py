"""`envwright train file FILE`, and `envwright train RUN` for a run of this machine (`backend: trl`): train it here."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from envwright_learner.settings import LearnerSettings, read_settings

from envwright import exit_codes
from envwright.cli import arguments
from envwright.cli.selection import beside_key, print_grants
from envwright.declarations.problem import nearest
from envwright.exit_codes import CommandError
from envwright.facts.observed import Failure
from envwright.models.model_run import judge_cut_short, judge_endpoint, judge_of
from envwright.models.relay import Relay
from envwright.observing.job import StageFailed
from envwright.packages.content import reward_digest
from envwright.packages.git import head_of
from envwright.packages.repository import Repository
from envwright.reports.printing import print_message, print_text
from envwright.system.installation import command_with
from envwright.system.subprocesses import ProgramFailed, signals_handled
from envwright.system.workspace import Workspace
from envwright.training.declared_runs import DeclaredRun, packages_of_runs, stale_configs
from envwright.training.follow import OUTPUTS
from envwright.training.preregistration import preregistration_of, write_once
from envwright.training.run_folder import UnfitSettings

if TYPE_CHECKING:
    from envwright_learner.environment import TrainingEnvironment
    from envwright_learner.settings import RolloutSettings
    from envwright_learner.training import Trained

    from envwright.declarations.package import Package
    from envwright.declarations.registry import EnvironmentEntry, Registry

EXAMPLES = """examples:
  envwright train file configs/rl/reverse-text-here.toml
"""
NEEDED = ("torch", "trl", "transformers", "datasets", "accelerate", "peft")
MOST_TASKS = 20_000
CODES = {
    "finished": exit_codes.PASS,
    "already finished": exit_codes.PASS,
    "budget": exit_codes.INCONCLUSIVE,
    "interrupted": exit_codes.INTERRUPTED,
}


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="a compiled file of a run with backend: trl")
    arguments.root(command)
    arguments.printed(command)


def run(options: argparse.Namespace) -> int:
    return _train_file(options.file, options)


def train_here(options: argparse.Namespace, registry: Registry, runs: Sequence[DeclaredRun]) -> int:
    """Train the declared runs one after the other; the exit code is the first that is not 0."""
    root = options.root
    for declared in runs:
        for finding in declared.findings:
            if finding.counts:
                print(f"{declared.spec.name}: {finding.rule}: {finding.message}", file=sys.stderr)
        if declared.fails or declared.compiled is None:
            return exit_codes.FAIL
        name = next(iter(declared.compiled.files))
        file = root / name
        if name in stale_configs(root, [declared]):
            raise CommandError(f"{name} differs from registry.yaml; update it with: envwright train compile")
        if missing := [secret for secret in declared.spec.secrets if not os.environ.get(secret)]:
            raise CommandError(f"{declared.spec.name} needs {', '.join(missing)}, which is not set")
        if not _missing():
            packages = packages_of_runs(root, registry, [declared.spec])
            fixed = preregistration_of(declared.spec, registry, packages, head_of(root))
            write_once(root / OUTPUTS / declared.spec.name, fixed)  # what the run is judged by, unless it has begun
        code = _train_file(file, options)
        if code != exit_codes.PASS:
            return code
    return exit_codes.PASS


def _missing() -> list[str]:
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def _train_file(file: Path, options: argparse.Namespace) -> int:
    if missing := _missing():
        command = command_with("train", "envwright train RUN")
        raise CommandError(f"training here needs {', '.join(missing)}, which are not installed; run: {command}")
    try:
        trained = _train(options.root, read_settings(file))
    except (StageFailed, ProgramFailed) as error:
        raise CommandError(f"the environment could not be played: {error}", exit_codes.ERROR) from None
    model = None if trained.model is None else str(trained.model)
    data = {"end": trained.end, "steps": trained.steps, "folder": str(trained.folder), "model": model}
    print_text(f"{json.dumps(data, indent=2) if options.format == 'json' else _summary(trained)}\n")
    return CODES[trained.end]


def _train(root: Path, settings: LearnerSettings) -> Trained:
    repository = Repository.load(root, [])
    name = settings.rollouts.environment
    if name not in repository.registry.environments:
        here = repository.registry.environments
        near = nearest(name, here)
        there = " (it is only on the Hub)" if name in repository.registry.external else ""
        raise UnfitSettings(
            f"there is no environment {name} in this repository{there}" + (f"; did you mean {near}?" if near else "")
        )
    package = Repository.load(root, [name]).packages[name]
    entry = repository.registry.environments[name]
    if missing := [secret for secret in entry.secrets if not os.environ.get(secret)]:
        raise UnfitSettings(f"the environment {name} needs {', '.join(missing)}, which is not set")
    if judge_endpoint(root, entry, package, scripted=False) is None:
        print_grants(repository, [name])
    else:
        entry = beside_key(repository, [name]).registry.environments[name]
    print_message(f"{settings.name}: {settings.model} on {name}")
    from envwright_learner.environment import NothingPlayed
    from envwright_learner.rendering import UnfitTemplate
    from envwright_learner.training import Learner

    with stopped_once() as stop:
        learner = Learner(settings, root, stop, print_message, reward_digest(entry, package))
        try:
            if finished := learner.prepare():
                return finished
            with _environment(root, entry, package, settings.rollouts, stop) as environment:
                return learner.run(environment)
        except UnfitTemplate as error:
            raise UnfitSettings(f"{settings.model} on {name}: {error}") from None
        except NothingPlayed as error:
            raise StageFailed(Failure("infrastructure", "NothingPlayed", str(error))) from None


@contextmanager
def _environment(
    root: Path, entry: EnvironmentEntry, package: Package, rollouts: RolloutSettings, stop: threading.Event
) -> Iterator[TrainingEnvironment]:
    """The environment, and the relay to its judge; `CommandError` where that relay cut the training short."""
    from envwright_learner.environment import NothingPlayed, RolloutLimits, TrainingJudge, opened_for_training

    limits = RolloutLimits(rollouts.max_concurrent, rollouts.seconds)
    with judge_of(root, entry, package, scripted=False) as relay:
        judge = TrainingJudge(relay.base_url if isinstance(relay, Relay) else None, lambda: judge_cut_short(relay))
        opened = opened_for_training(
            entry, package, Workspace(root), rollouts.args, stop, most_tasks=MOST_TASKS, limits=limits, judge=judge
        )
        try:
            with opened as environment:
                yield environment
        except NothingPlayed as error:
            if judge.cut_short():
                raise CommandError(f"{entry.name}: {error}", exit_codes.INCONCLUSIVE) from None
            raise


@contextmanager
def stopped_once() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; a second one ends the process immediately."""
    stop = threading.Event()

    def ask(number: int, _frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        print_message(
            "stopping after the current step; press again to stop at once" if number == signal.SIGINT else "ending"
        )

    with signals_handled(ask, signal.SIGINT, signal.SIGTERM):
        yield stop


def _summary(trained: Trained) -> str:
    ended = f"{trained.end} after {trained.steps} steps; checkpoints and metrics are in {trained.folder}"
    resumes = "the same command resumes after the last finished step"
    return f"{ended}\n{resumes if trained.model is None else f'the trained model: {trained.model}'}"
