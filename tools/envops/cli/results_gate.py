"""`envops distribution NAME --results FILE`: the gate on rollouts that were made elsewhere."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from dataclasses import replace

from envops import __version__, exit_codes
from envops.facts.observed import Facts
from envops.facts.stages import needed_by
from envops.models.import_results import Expected, Imported, NoResults, import_results, say_problems
from envops.reports.open_progress import open_progress
from envops.reports.written import report
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.repository.repository import Repository
from envops.repository.workspace import Workspace
from envops.rules.engine import Subject
from envops.rules.result import ValidationResult, environment_result
from envops.rules.verdict import judge
from envops.validation.collected_facts import ProgressListener
from envops.validation.facts_cache import remembered
from envops.validation.observation import observe
from envops.validation.observation_request import ObservationRequest

STAGES = needed_by("smoke", "distribution")


def run(options: argparse.Namespace) -> int:
    """Judge the file and return the exit code."""
    started = time.monotonic()
    root = options.root.absolute()
    if len(options.names) != 1:
        print("--results belongs to one environment: envops distribution NAME --results FILE", file=sys.stderr)
        return exit_codes.USAGE
    if not options.results.exists():
        print(f"{options.results} does not exist", file=sys.stderr)
        return exit_codes.USAGE
    repository = Repository.load(root, options.names)
    (name,) = repository.select(options.names)
    entry, package = repository.registry.environments[name], repository.packages[name]
    known = known_environment(entry, package, Workspace(root), options)
    if known.description is None:
        judgement = judge(Subject(entry, package, known), ["distribution"])
        facts, path = known, options.results
    else:
        try:
            imported = import_results(options.results, Expected(name, package.module, package.digest, known))
        except (NoResults, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return exit_codes.USAGE
        path = imported.path
        if imported.refusals:
            say_problems(path, imported.refusals, "not judged, because the file is evidence of something else")
            return exit_codes.USAGE
        say_problems(path, imported.problems, "judged all the same: what cannot be used counts as missing")
        facts = facts_of(imported, known)
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
    """What the environment is, without scores or rollouts of our own."""
    request = ObservationRequest(options.allow_network, not options.no_cache, evaluate=False, score=False)
    known = remembered(entry, package, workspace, request)
    if known is None:
        with open_progress([entry.name], quiet=options.quiet) as progress:
            listener = ProgressListener(
                stage=lambda stage: progress.stage(entry.name, stage),
                advance=lambda done, total: progress.advance(entry.name, done, total),
            )
            known = observe(entry, package, workspace, request, listener, threading.Event())
    return known


def facts_of(imported: Imported, known: Facts) -> Facts:
    """The environment as it is known here, with the rollouts of the file and no others."""
    asked = Counter(row.speaker for row in imported.rows)
    return replace(
        known,
        scores=(),
        rollouts=tuple(row.as_rollout() for row in imported.rows),
        rollouts_asked=dict(asked),
        completed=tuple(dict.fromkeys((*known.completed, *STAGES))),
        failures={stage: failure for stage, failure in known.failures.items() if stage not in STAGES},
    )
