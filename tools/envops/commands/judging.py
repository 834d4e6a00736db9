"""Facts of one environment judged, and those of many judged in processes side by side."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envops.declare.repository import Repository
from envops.judge.engine import Gate, Subject
from envops.judge.recorded import baseline_for
from envops.judge.verdict import judge
from envops.observe.capacity import usable_cores
from envops.observe.recording_refresh import knows_recordings
from envops.observe.remembering import remembered
from envops.observe.requests import Wish
from envops.observe.worker.supervisor import die_with_parent
from envops.observe.workspace import Workspace
from envops.report.result import EnvironmentResult, environment_result, in_brief

if TYPE_CHECKING:
    from envops.observe.facts import Facts

WORTH_PROCESSES = 24
"""Fewer environments are judged before another process has begun."""
BRIEF_FROM = 50
"""Environments in one run from which on reports are brief about those that passed."""
AT_ONCE = 4
"""Environments that a process is given at a time."""


@dataclass(frozen=True)
class Question:
    """What is asked of every environment."""

    repository: Repository
    workspace: Workspace
    brief: bool
    """Whether results of what passed may leave out what nobody reads."""
    gates: tuple[Gate, ...]
    wish: Wish


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


def judged_from_cache(question: Question, names: Sequence[str]) -> Iterator[tuple[str, EnvironmentResult | None]]:
    """Results of environments whose facts are remembered; `None` where they must be looked at after all."""
    cores = usable_cores()
    if len(names) < WORTH_PROCESSES or cores < 2:
        for name in names:
            yield name, _judged_if_remembered(question, name)
        return
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(cores, context, initializer=_begin, initargs=(question, os.getpid()))
    rest = list(names)
    try:
        for result in pool.map(_judged_here, names, chunksize=AT_ONCE):
            yield rest.pop(0), result
    except BrokenProcessPool:  # the machine ended one of them
        yield from ((name, None) for name in rest)
    finally:
        pool.shutdown(cancel_futures=True)


_question: Question | None = None
"""In a judging process: what it was forked to answer."""


def _begin(question: Question, parent: int) -> None:
    global _question
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host tells its end
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent)
    gc.disable()  # facts are large and without cycles: looking for some takes longer than judging
    _question = question


def _judged_here(name: str) -> EnvironmentResult | None:
    assert _question is not None
    return _judged_if_remembered(_question, name)


def _judged_if_remembered(question: Question, name: str) -> EnvironmentResult | None:
    """Whatever goes wrong here goes wrong again, and is told, where the environment is looked at by itself."""
    started = time.monotonic()
    package = question.repository.packages[name]
    try:
        facts = remembered(question.repository.registry.environments[name], package, question.workspace, question.wish)
        if facts is None or (question.wish.evaluate and not knows_recordings(facts, package)):
            return None
        return judged(question, name, facts, cached=True, started=started)
    except Exception:
        return None
