"""The verdict of one environment: remembered beside its facts, or judged from them and remembered."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envops.repository.repository import Repository
from envops.repository.workspace import Workspace
from envops.rules.engine import Gate, Subject
from envops.rules.result import EnvironmentResult, environment_result, in_brief
from envops.rules.verdict import judge
from envops.statistics.recorded import baseline_for
from envops.validation.facts_on_disk import read_facts
from envops.validation.recording_refresh import knows_recordings
from envops.validation.remembered_verdicts import KeptVerdict, kept_verdict
from envops.validation.remembering import facts_file, facts_files, remembered
from envops.validation.requests import Wish

if TYPE_CHECKING:
    from pathlib import Path

    from envops.facts.observed import Facts

BRIEF_FROM = 50
"""Environments in one run from which on reports are brief about those that passed."""


@dataclass(frozen=True)
class Question:
    """What is asked of every environment."""

    repository: Repository
    workspace: Workspace
    brief: bool
    """Whether results of what passed may leave out what nobody reads."""
    gates: tuple[Gate, ...]
    wish: Wish


def remembered_result(question: Question, name: str) -> EnvironmentResult | None:
    """The result of an environment without looking at it; `None` where it must be looked at after all.

    Whatever goes wrong here goes wrong again, and is told, where the environment is looked at by itself.
    """
    started = time.monotonic()
    entry, package = question.repository.registry.environments[name], question.repository.packages[name]
    try:
        for path in facts_files(entry, package, question.workspace, question.wish):
            result = _kept(question, name, path).read()
            if result is not None and result.name == name:
                return replace(result, cached=True, seconds=time.monotonic() - started)
        facts = remembered(entry, package, question.workspace, question.wish)
        if facts is None or (question.wish.evaluate and not knows_recordings(facts, package)):
            return None
        result = judged(question, name, facts, cached=True, started=started)
        keep(question, facts, result)
        return result
    except Exception:
        return None


def judged(question: Question, name: str, facts: Facts, *, cached: bool, started: float) -> EnvironmentResult:
    """The result of an environment from facts; `started` is when its turn began."""
    repository = question.repository
    package = repository.packages[name]
    recorded = [one.baseline for one in facts.recordings if not one.problems]
    subject = Subject(repository.registry.environments[name], package, facts, baseline=baseline_for(recorded, facts))
    judgement = judge(subject, question.gates, brief=question.brief)
    seconds = time.monotonic() - started
    result = environment_result(package, facts, judgement, root=repository.root, cached=cached, seconds=seconds)
    return in_brief(result) if question.brief else result


def keep(question: Question, facts: Facts, result: EnvironmentResult) -> None:
    """Remember a result beside its facts, which are those in the cache."""
    if knows_recordings(facts, question.repository.packages[result.name]):
        _kept(question, result.name, facts_file(question.workspace, facts.environment, facts.key)).write(result)


def are_in_the_cache(facts: Facts, workspace: Workspace) -> bool:
    """Whether the cache holds these facts and no others under their key: not all that is seen is kept."""
    with suppress(OSError, ValueError):
        return read_facts(facts_file(workspace, facts.environment, facts.key)) == facts
    return False


def _kept(question: Question, name: str, facts: Path) -> KeptVerdict:
    entry, package = question.repository.registry.environments[name], question.repository.packages[name]
    return kept_verdict(facts, entry, package, question.gates, brief=question.brief)
