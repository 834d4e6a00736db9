"""`envwright rewards diff --against BASE`: one corpus of replies, scored by two versions of the code."""

from __future__ import annotations

import argparse
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from envwright import __version__, exit_codes
from envwright.cli import arguments
from envwright.cli.selection import chosen_environments, print_grants
from envwright.declarations.package import Package
from envwright.declarations.problem import DeclarationError, Problem
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.observed import Facts, Failure
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.reward_diff import Scorer, SideFailed, corpus_of, open_both, score_both
from envwright.observing.runner import facts_of
from envwright.packages.base_revision import Base, NoBase, find_base
from envwright.packages.repository import Repository
from envwright.reports.printing import print_report, write_report
from envwright.reports.reward_diff import DiffResult, EnvironmentDiff, render_json, render_markdown, render_text
from envwright.reports.written import refresh_page
from envwright.rules.engine import Finding, Subject, Verdict, all_rules, apply
from envwright.rules.verdict import worst
from envwright.statistics.reward_comparison import ComparedVersion, RewardComparison, compare
from envwright.statistics.task_matching import TwoSides, match_tasks
from envwright.system.workspace import Workspace

EXAMPLES = """examples:
  envwright rewards diff gsm8k --against main           which rewards changed since a revision
  envwright rewards diff gsm8k --against ../old/gsm8k   whether a port rewards like its original
  envwright rewards diff --changed --against main       for environments that differ from the main branch
"""


def add_arguments(command: argparse.ArgumentParser) -> None:
    arguments.selection(command)
    command.add_argument(
        "--against",
        required=True,
        metavar="PATH_OR_REV",
        help="score the same replies with the code of a revision of git or of another package's folder",
    )
    arguments.printed(command, "markdown")
    command.add_argument("-q", "--quiet", action="store_true", help="no progress")
    arguments.no_cache(command)
    arguments.network(command, "environments", "they load")
    arguments.reports(command)


@dataclass(frozen=True)
class DiffRun:
    """The settings that all environments of a run share."""

    base: Base
    workspace: Workspace
    request: ObservationRequest
    quiet: bool
    stop: threading.Event


def run(options: argparse.Namespace) -> int:
    """Compare the chosen environments with the base, write the reports and return the exit code."""
    root = options.root
    choice = chosen_environments(root, options)
    repository, names = choice.repository, choice.names
    print_grants(repository, names)
    base = find_base(root, options.against)
    if base.folder is not None and len(names) != 1:
        message = "is one package's folder: name the one environment that is compared with it"
        fix = "envwright rewards diff NAME --against FOLDER"
        raise DeclarationError([Problem(options.against, None, message, fix=fix)])
    request = ObservationRequest(
        allow_network=options.allow_network, use_cache=not options.no_cache, evaluate=False, only_replies=True
    )
    shared = DiffRun(base, Workspace(root), request, options.quiet, threading.Event())
    try:
        compared = tuple(_compare_one(shared, repository, name) for name in names)
    except KeyboardInterrupt:
        shared.stop.set()
        raise
    result = DiffResult(base.label, worst(diff.verdict for diff in compared), compared, __version__)
    _report(result, options, options.reports)
    return exit_codes.OF_VERDICT[result.verdict]


def _report(result: DiffResult, options: argparse.Namespace, folder: Path) -> None:
    written = {"json": render_json(result), "markdown": render_markdown(result)}
    write_report(folder / "reward-diff.json", written["json"])
    write_report(folder / "reward-diff.md", written["markdown"])
    refresh_page(folder)
    print_report(options.format, written, lambda width, colour: render_text(result, width=width, colour=colour))


def _note(shared: DiffRun, text: str) -> None:
    if not shared.quiet:
        print(text, file=sys.stderr)


def _compare_one(shared: DiffRun, repository: Repository, name: str) -> EnvironmentDiff:
    """One environment; its errors do not affect the others."""
    started = time.monotonic()
    entry, package = repository.registry.environments[name], repository.packages[name]
    with shared.workspace.scratch() as scratch:
        try:
            there = shared.base.environment(entry, scratch)
        except NoBase as error:
            if error.new:
                return EnvironmentDiff(name, "pass", "new", str(error))
            return EnvironmentDiff(name, "inconclusive", "failed", str(error))
        if there[1].digest == package.digest and dict(there[0].args) == dict(entry.args):
            reason = f"package, lock and arguments equal those of {shared.base.label}: nothing to compare"
            return EnvironmentDiff(name, "pass", "unchanged", reason)
        try:
            comparison, facts = _compared(shared, there, (entry, package))
        except SideFailed as error:
            return _failed(name, error, shared.base.label)
    subject = Subject(entry, package, facts, comparison=comparison)
    found = tuple(finding for rule in all_rules().values() if rule.compares for finding in apply(rule, subject))
    verdict = _verdict(found)
    reason = _summary(comparison)
    seconds = time.monotonic() - started
    return EnvironmentDiff(name, verdict, "compared", reason, comparison, found, seconds=seconds)


Declared = tuple[EnvironmentEntry, Package]


def _compared(shared: DiffRun, there: Declared, here: Declared) -> tuple[RewardComparison, Facts]:
    entry, package = here
    _note(shared, f"{package.name}: collecting replies …")
    facts = facts_of(entry, package, shared.workspace, shared.request, shared.stop, quiet=shared.quiet)
    network = shared.request.allow_network
    with (
        Scorer(*there, shared.workspace, network, shared.stop) as base,
        Scorer(*here, shared.workspace, network, shared.stop) as head,
    ):
        _note(shared, f"{package.name}: loading both versions …")
        scorers = TwoSides(base, head)
        open_both(scorers, shared.stop)
        matching = match_tasks(*scorers.each(lambda scorer: scorer.listing.tasks.values()))
        to_base = {match.tasks.after.index: match.tasks.before.index for match in matching.matches}
        corpus = corpus_of(scorers, facts, to_base)
        _note(shared, f"{package.name}: scoring {len(corpus.replies):,} replies twice …")
        replies = score_both(corpus, scorers, shared.stop)
        comparison = compare(
            TwoSides(_version(base, there[0], shared.base.label), _version(head, entry, "the working tree")),
            matching,
            replies,
            unmatched=corpus.unmatched,
            left_out=corpus.left_out,
        )
    return comparison, facts


def _version(scorer: Scorer, entry: EnvironmentEntry, label: str) -> ComparedVersion:
    package, described = scorer.package, scorer.description
    return ComparedVersion(
        label, package.name, package.version, described.generation, package.digest, described.functions, entry.args
    )


def _verdict(found: tuple[Finding, ...]) -> Verdict:
    counting = [finding for finding in found if finding.counts]
    if any(finding.bug for finding in counting):
        return "error"
    if not counting:
        return "pass"
    return "inconclusive" if all(finding.inconclusive for finding in counting) else "fail"


def _summary(comparison: RewardComparison) -> str:
    changed, count = len(comparison.changed), len(comparison.replies)
    if not count:
        return "nothing could be compared"
    return f"{changed:,} of {count:,} replies are scored differently" if changed else f"{count:,} replies, all the same"


def _failed(name: str, error: SideFailed, label: str) -> EnvironmentDiff:
    failure: Failure = error.failure
    first = (failure.message.strip().splitlines() or [""])[0]
    own = failure.kind in ("raised", "missing-secret", "network")
    if error.side == "before":
        reason = f"the code of {label} could not be run: {failure.type}: {first}"
        return EnvironmentDiff(name, "inconclusive" if own else "error", "failed", reason, failure=failure)
    reason = f"the working tree's code could not be run: {failure.type}: {first}"
    return EnvironmentDiff(name, "fail" if own else "error", "failed", reason, failure=failure)
