"""Observing one environment, from its lock to its last rollout."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from envops.facts.limits import STAGE_SECONDS, TESTS_SECONDS
from envops.facts.observed import Facts, Stage, Started
from envops.repository.content import RECORDINGS
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.repository.workspace import Workspace
from envops.system.subprocesses import ProgramFailed
from envops.validation.collected import Collected
from envops.validation.evaluating import Evaluator, NewJob, ScriptedEvaluation
from envops.validation.harness import seat_harness
from envops.validation.hash_order import OTHER_SEED, follows_hash_order
from envops.validation.job import Confinement, Job, StageFailed
from envops.validation.journal import PASSING_FAULTS, Journal
from envops.validation.mutation import mutation_of
from envops.validation.remembering import facts_key, remember
from envops.validation.repetition import repeated
from envops.validation.requests import Requests, Wish, requests_for
from envops.validation.searching import search_request, search_toolbox
from envops.validation.side_by_side import Piece, run_side_by_side
from envops.validation.templates import EnvironmentProcesses, LockTemplates, environment_processes, reason_against_forks
from envops.validation.venv import VirtualEnvironment, venv_for
from envops.validation.wheel import CHANGED, TESTS_LOCK, built_wheel, changed_since_read

NewProcesses = Callable[[], AbstractContextManager[EnvironmentProcesses]]


@dataclass(frozen=True)
class Watcher:
    """Who wants to know how far an observation is."""

    stage: Callable[[Stage], None]
    advance: Callable[[int, int], None]
    detail: Callable[[str], None] = lambda _: None
    """How an evaluation is getting on, in words."""
    note: Callable[[str], None] = lambda _: None
    """What the reader should know although nothing is wrong with the environment."""


def observe(
    entry: EnvironmentEntry,
    package: Package,
    workspace: Workspace,
    wish: Wish,
    watcher: Watcher,
    stop: threading.Event,
    templates: LockTemplates | None = None,
) -> Facts:
    """Observe an environment afresh and remember what was seen.

    What the environment does wrong is in the facts' failures. Without the `templates` of a run it has some of its
    own. Raises `Interrupted` when `stop` is set.
    """
    collected = Collected()
    key, requests = facts_key(entry, package, wish), requests_for(entry, wish)
    journal = Journal.of(workspace, entry.name, key, fresh=not wish.use_cache)
    observer = _Observer(entry, package, workspace, requests, journal, watcher, stop, collected)
    with (
        suppress(StageFailed, ProgramFailed),
        nullcontext(templates) if templates else LockTemplates(workspace, stop) as own,
    ):
        observer.run(own, *observer.prepare(own))
    if observer.wheel is not None and changed_since_read(package):  # tests and oracle are read from the folder
        collected.failures["wheel"] = CHANGED
        journal.forget()
    facts = replace(
        collected.facts(entry.name, key, package.digest),
        wheel=observer.wheel,
        memory=observer.memory,
        started=observer.started,
    )
    faults = [*(each.failure for each in facts.rollouts), *(each.failure for each in facts.repetitions)]
    passing = any(fault is not None and fault.kind in PASSING_FAULTS for fault in faults)
    passing |= any(fault.type == "ChildProcessError" for fault in facts.failures.values())  # perhaps for want of memory
    passing |= wish.allow_network and bool(facts.failures)  # an outage, a missing HF_TOKEN: nothing that the key knows
    if not passing and not facts.broken_infrastructure() and (trouble := remember(facts, workspace)):
        watcher.note(trouble)
    return facts


def observe_unpacked(
    entry: EnvironmentEntry,
    package: Package,
    overlay: Path,
    workspace: Workspace,
    wish: Wish,
    stop: threading.Event,
    templates: LockTemplates,
    venv: VirtualEnvironment,
    *,
    without: Collection[str] = (),
) -> Facts:
    """What is seen of a package that lies unpacked in a folder; nothing is remembered.

    `without` names the pieces that are left out: `search`, `mutation`, `tests` and so on.
    """
    collected, requests = Collected(), requests_for(entry, wish)
    journal = Journal.of(workspace, entry.name, facts_key(entry, package, wish), fresh=True)
    watcher = Watcher(lambda _stage: None, lambda _done, _all: None)
    observer = _Observer(entry, package, workspace, requests, journal, watcher, stop, collected)
    with suppress(StageFailed):
        observer.run(templates, venv, overlay, without)
    return collected.facts(entry.name, "", package.digest)


class _Observer:
    """One observation on its way."""

    def __init__(
        self,
        entry: EnvironmentEntry,
        package: Package,
        workspace: Workspace,
        requests: Requests,
        journal: Journal,
        watcher: Watcher,
        stop: threading.Event,
        collected: Collected,
    ) -> None:
        self._entry = entry
        self._package = package
        self._workspace = workspace
        self._requests = requests
        self._journal = journal
        self._watcher = watcher
        self._stop = stop
        self._collected = collected
        self._open = ExitStack()
        self._scoring: Job | None = None
        """The job that scores replies, for what is asked after that."""
        self.wheel: Any = None
        self.memory = 0
        self.started = Started()

    def prepare(self, templates: LockTemplates) -> tuple[VirtualEnvironment, Path]:
        """The virtual environment, and the unpacked wheel. Raises `ProgramFailed` where one cannot be made."""
        with self._stage("venv"):
            lock, alone = self._package.folder / "requirements.lock", bool(reason_against_forks(self._package))
            venv = venv_for(lock, self._workspace, self._stop, imported=alone)
            templates.begin(venv, self._package, self._requests.confinement)
        with self._stage("wheel"):
            built = built_wheel(self._package, self._workspace, self._stop)
            self.wheel = built.wheel
        return venv, built.overlay

    def run(
        self, templates: LockTemplates, venv: VirtualEnvironment, overlay: Path, without: Collection[str] = ()
    ) -> None:
        """See everything that is wanted. Raises `StageFailed` where the environment cannot be loaded."""
        begin = partial(self._processes, templates, venv, overlay)
        confinement = self._requests.confinement
        with self._stage("load", ends=False):
            processes = self._open.enter_context(begin(confinement))
        try:
            self._load(processes)
            other_seed = partial(begin, replace(confinement, hash_seed=OTHER_SEED))
            pieces = self._pieces(processes, overlay, other_seed)
            run_side_by_side([one for one in pieces if one.name not in without])
        finally:
            self.memory, self.started = processes.peak_memory, processes.started
            self._open.close()

    def _processes(
        self, templates: LockTemplates, venv: VirtualEnvironment, overlay: Path, confinement: Confinement
    ) -> AbstractContextManager[EnvironmentProcesses]:
        settings = self._requests.settings(self._package, overlay)
        return environment_processes(
            venv, self._package, overlay, settings, confinement, self._workspace, self._stop, templates
        )

    def _load(self, processes: EnvironmentProcesses) -> None:
        for stage, parts in processes.load():
            with self._stage(stage):
                self._take("load", parts)

    def _pieces(self, processes: EnvironmentProcesses, overlay: Path, other_seed: NewProcesses) -> Iterator[Piece]:
        """What is seen by jobs, the first ones first; `after` names what a piece needs to be over."""
        requests, new_job = self._requests, processes.job
        if requests.rewards is not None:
            yield Piece("rewards", partial(self._ask_rewards, new_job, requests.rewards))
        if requests.beside_replies:
            yield Piece("search", partial(self._ask_search, new_job))
            yield Piece("invariants", self._ask_invariants, after="rewards")
            yield Piece("mutation", partial(self._ask_mutation, new_job, overlay), after="rewards")
            yield Piece("repetition", partial(self._ask_repetition, new_job, other_seed), after="invariants")
            if self._package.test_files:
                yield Piece("tests", partial(self._ask_tests, new_job))
        for asked in requests.evaluations:
            yield Piece(asked.stage, partial(self._ask_rollouts, new_job, asked))
        if requests.recordings is not None:
            yield Piece("recordings", partial(self._ask_recordings, new_job))

    def _ask_rewards(self, new_job: NewJob, asked: Mapping[str, Any]) -> None:
        """Policies and cases; the job goes on with what is asked about the same conversations."""
        with self._stage("rewards", may_fail=True):
            job = self._open.enter_context(new_job())
            total = len(self._collected.kept("task")) * len(asked["policies"])
            self._take("rewards", job.request("rewards", STAGE_SECONDS, **asked), total)
            cases = [asdict(case) for case in self._package.cases]
            self._take(
                "rewards", job.request("cases", STAGE_SECONDS, cases=cases, **self._requests.cases or {}), len(cases)
            )
            self._scoring = job
        if self._scoring is not None and self._requests.validation is not None:
            with self._stage("validation", may_fail=True):
                self._take("rewards", self._scoring.request("validation", STAGE_SECONDS, **self._requests.validation))

    def _ask_invariants(self) -> None:
        if self._scoring is None or self._requests.invariants is None:
            return
        with self._stage("invariants", may_fail=True):
            self._take("invariants", self._scoring.request("invariants", STAGE_SECONDS, **self._requests.invariants))
        self._scoring.end()

    def _ask_repetition(self, new_job: NewJob, other_seed: NewProcesses) -> None:
        """Let processes that have scored nothing score a sample: a job, and one where sets have another order."""
        sample, described = self._collected.kept("sample"), self._collected.description
        if not sample or described is None:
            return
        conversational = described.conversational
        with self._stage("invariants", may_fail=True, ends=False):
            if not conversational:
                self._collected.add(
                    "repetition", "repetition", repeated("fresh process", new_job(), sample, conversational=False)
                )
            if follows_hash_order(self._package):
                with other_seed() as processes:
                    again = repeated("hash seed", processes.job(), sample, conversational=conversational)
                self._collected.add("repetition", "repetition", again)

    def _ask_tests(self, new_job: NewJob) -> None:
        with self._stage("tests", may_fail=True):
            toolbox = venv_for(TESTS_LOCK, self._workspace, self._stop).site_packages
            with new_job() as job:
                files = list(self._package.test_files)
                self._take("tests", job.request("tests", TESTS_SECONDS, files=files, toolbox=str(toolbox)))

    def _ask_search(self, new_job: NewJob) -> None:
        with self._stage("search", may_fail=True):
            toolbox = search_toolbox(self._workspace, self._stop)
            described = self._collected.description
            conversational = described is not None and described.conversational
            with new_job() as job:
                self._take("search", search_request(job, self._package, toolbox, conversational=conversational))

    def _ask_mutation(self, new_job: NewJob, overlay: Path) -> None:
        """Mutate the reward code; what was scored before is what the mutants are asked about."""
        described = self._collected.description
        if self._scoring is None or described is None:
            return
        with self._stage("mutation", may_fail=True):
            scored = self._collected.kept("score"), self._collected.kept("case")
            self._collected.mutation = mutation_of(new_job, self._package, overlay, described, *scored)

    def _ask_rollouts(self, new_job: NewJob, asked: ScriptedEvaluation) -> None:
        described = self._collected.description
        grouped = any(one.group for one in described.functions) if described else False
        with self._stage(asked.stage, may_fail=True):
            asked = replace(asked, tasks=min(asked.tasks, len(self._collected.kept("task"))))
            ready = partial(self._ready_to_play, new_job, asked.harness)
            parts = Evaluator(ready, self._journal, self._watcher.detail, whole_groups=grouped).rollouts(asked)
            self._collected.asked[asked.policy] = asked.tasks * asked.rollouts
            self._take(asked.stage, parts, asked.tasks * asked.rollouts)

    @contextmanager
    def _ready_to_play(self, new_job: NewJob, harness: str | None) -> Iterator[Job]:
        """A job, with another harness in it where one was asked for."""
        with new_job() as job:
            if harness is not None:
                open_network = self._requests.confinement.allow_network
                seat_harness(job, harness, self._workspace, allow_network=open_network)
            yield job

    def _ask_recordings(self, new_job: NewJob) -> None:
        """Score recorded replies again."""
        described, tasks = self._collected.description, self._collected.kept("task")
        with self._stage("recordings", may_fail=True):
            if described is None or not (self._package.folder / RECORDINGS).is_dir():
                return
            from envops.validation.recording_check import check_recordings  # slow to import, and seldom needed

            with new_job() as job:
                for one in check_recordings(job.request, self._entry, self._package, described, tasks):
                    self._collected.add("recordings", "recording", one)

    @contextmanager
    def _stage(self, stage: Stage, *, may_fail: bool = False, ends: bool = True) -> Iterator[None]:
        """Time a stage and file its failure; the observation goes on only where that makes sense.

        With `ends=False` the block is one part of the stage.
        """
        self._watcher.stage(stage)
        started = time.monotonic()
        try:
            yield
            if ends:
                self._collected.completed.append(stage)
        except (StageFailed, ProgramFailed) as error:
            self._collected.failures[stage] = error.failure
            if not may_fail:
                raise
        finally:
            spent = self._collected.seconds.get(stage, 0.0) + time.monotonic() - started
            self._collected.seconds[stage] = round(spent, 3)

    def _take(self, section: str, parts: Iterator[tuple[str, Any]], total: int = 0) -> None:
        self._collected.take(section, parts, self._watcher.advance, total)
