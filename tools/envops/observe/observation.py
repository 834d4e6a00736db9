"""Observing one environment, from its lock to its last rollout."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

from envops.declare.package import Package
from envops.declare.registry import EnvironmentEntry
from envops.observe.collected import Collected
from envops.observe.early_worker import early_worker, heeded_by_imports, would_be_in_vain
from envops.observe.evaluating import ScriptedEvaluation, evaluation
from envops.observe.facts import Facts, Stage, Started
from envops.observe.fork_server import ForkServers, Origin
from envops.observe.harness import seat_harness
from envops.observe.hash_order import OTHER_SEED, follows_hash_order, with_other_seed
from envops.observe.journal import PASSING_FAULTS, Journal
from envops.observe.limits import (
    AT_ONCE,
    INVARIANTS_SECONDS,
    LOAD_SECONDS,
    POLICIES,
    SAMPLED,
    SECONDS_PER_REPLY,
    STAGE_SECONDS,
    TASKS_PLAYED,
    TASKS_SCORED,
    TASKS_SWEPT,
    TASKS_VALIDATED,
    TESTS_SECONDS,
)
from envops.observe.mutation import MutationUnderWay, begin_mutation
from envops.observe.process import Confinement, StageFailed, WorkerLost, WorkerProcess
from envops.observe.remembering import Wish, facts_key, remember
from envops.observe.searching import search_request, search_toolbox
from envops.observe.subprocesses import ProgramFailed
from envops.observe.venv import VirtualEnvironment, venv_for
from envops.observe.wheel import CHANGED, TESTS_LOCK, built_wheel, changed_since_read
from envops.observe.workspace import Workspace


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
    servers: ForkServers | None = None,
) -> Facts:
    """Observe an environment afresh and remember what was seen.

    What the environment does wrong is in the facts' failures. Raises `Interrupted` when
    `stop` is set.
    """
    collected = Collected()
    key = facts_key(entry, package, wish)
    observer = _Observer(entry, package, workspace, wish, watcher, stop, collected, servers)
    with suppress(WorkerLost, StageFailed, ProgramFailed):
        observer.run()
    if observer.wheel is not None and changed_since_read(package):  # tests and oracle are read from the folder
        collected.failures["wheel"] = CHANGED
        Journal.of(workspace, entry.name, key).forget()
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


def worker_settings(entry: EnvironmentEntry, package: Package, overlay: Path, *, allow_network: bool) -> dict[str, Any]:
    """What a worker must know of an environment before it can load it."""
    return {
        "module": package.module,
        "generation": package.generation or "v1",
        "args": dict(entry.args),
        "package": str(package.folder.resolve()),
        "overlay": str(overlay.resolve()),
        "answer_type": package.answer.type,
        "tolerance": package.answer.tolerance,
        "case_sensitive": package.answer.case_sensitive,
        "allow_network": allow_network,
        "forks_servers": not (package.fresh_process or entry.secrets or allow_network),
    }


def confinement_of(entry: EnvironmentEntry, wish: Wish) -> Confinement:
    """What this environment's worker is given of the machine."""
    secrets = {name: os.environ[name] for name in entry.secrets if name in os.environ}
    return Confinement(secrets, wish.allow_network)


class _Observer:
    """One observation on its way; each method is one stage."""

    def __init__(
        self,
        entry: EnvironmentEntry,
        package: Package,
        workspace: Workspace,
        wish: Wish,
        watcher: Watcher,
        stop: threading.Event,
        collected: Collected,
        servers: ForkServers | None,
    ) -> None:
        self._entry = entry
        self._package = package
        self._workspace = workspace
        self._wish = wish
        self._watcher = watcher
        self._stop = stop
        self._collected = collected
        self._servers = servers
        self._mutation: MutationUnderWay | None = None
        self.wheel: Any = None
        self.memory = 0
        self.started = Started()

    def run(self) -> None:
        with self._stage("venv"):
            venv = venv_for(self._package.folder / "requirements.lock", self._workspace, self._stop)
        confinement = confinement_of(self._entry, self._wish)
        with ExitStack() as opened:
            early = self._early(opened, venv, confinement)
            with self._stage("wheel"):
                built = built_wheel(self._package, self._workspace, self._stop)
                self.wheel = built.wheel
            with self._stage("load", ends=False):
                worker = self._worker(opened, early, venv, built.overlay, confinement)
            try:
                self._ask_everything(worker, built.overlay)
            finally:
                self.memory = worker.peak_memory
            self._ask_other_seed(venv, built.overlay, confinement)

    def _early(self, opened: ExitStack, venv: VirtualEnvironment, confinement: Confinement) -> WorkerProcess | None:
        """A worker that imports verifiers meanwhile; none where others import it too, or the network is open to it."""
        shared = self._servers is not None and self._servers.shares(venv.folder.name)
        if shared or confinement.allow_network or would_be_in_vain(self._package):
            return None
        return opened.enter_context(early_worker(venv, self._package, self._workspace, confinement, self._stop))

    def _worker(
        self,
        opened: ExitStack,
        early: WorkerProcess | None,
        venv: VirtualEnvironment,
        overlay: Path,
        confinement: Confinement,
    ) -> WorkerProcess:
        if early is not None and not heeded_by_imports(overlay, venv):
            self.started = early.started
            return early
        if early is not None:
            early.end()
        origin = self._origin(venv, overlay, confinement)
        scratch = opened.enter_context(self._workspace.scratch())
        worker = opened.enter_context(WorkerProcess(venv, overlay, scratch, confinement, self._stop, origin.server))
        self.started = replace(worker.started, reason=worker.started.reason or origin.reason)
        return worker

    def _origin(self, venv: VirtualEnvironment, overlay: Path, confinement: Confinement) -> Origin:
        return self._servers.origin(venv, self._package, overlay, confinement) if self._servers else Origin()

    def _ask_everything(self, worker: WorkerProcess, overlay: Path) -> None:
        with self._stage("load"):
            settings = worker_settings(self._entry, self._package, overlay, allow_network=self._wish.allow_network)
            self._collect(worker.request("load", LOAD_SECONDS, settings=settings))
            if self._wish.score or self._wish.evaluate:
                longest = max(10 * SECONDS_PER_REPLY, self._entry.gates.smoke.timeout_s)
                self._collect(worker.request("serve", LOAD_SECONDS, seconds=longest))
        with self._stage("tasks"):
            self._collect(worker.request("tasks", LOAD_SECONDS, keep=TASKS_SCORED))
            self._collect(worker.request("spare", LOAD_SECONDS))
        if self._wish.score and not self._wish.only_replies:
            self._begin_tests(worker)
            self._begin_rollouts(worker)
        if self._wish.score or self._wish.evaluate:
            self._ask_rewards(worker)
        if self._wish.only_replies:
            return
        if self._wish.score or self._wish.evaluate:
            self._ask_validation(worker)
        if self._wish.score:
            self._begin_mutation(worker, overlay)
            self._ask_invariants(worker)
        if self._wish.evaluate:
            self._ask_rollouts(worker)
            self._ask_recordings(worker)
        if self._wish.score:
            self._collect_search(worker)
            self._collect_mutation()
        if self._wish.score and "tests" not in self._collected.failures:
            with self._stage("tests", may_fail=True):
                self._collect(worker.request("tests", TESTS_SECONDS + 10))

    def _begin_tests(self, worker: WorkerProcess) -> None:
        """Let the author's tests run beside the stages that follow; they are collected last."""
        files = list(self._package.test_files)
        if not files:
            return
        with self._stage("tests", may_fail=True, ends=False):
            toolbox = venv_for(TESTS_LOCK, self._workspace, self._stop).site_packages
            tests = {"files": files, "toolbox": str(toolbox), "seconds": TESTS_SECONDS}
            self._collect(worker.request("tests", LOAD_SECONDS, **tests))

    def _ask_rewards(self, worker: WorkerProcess) -> None:
        limits = {
            "seconds": SECONDS_PER_REPLY,
            "max_concurrent": min(AT_ONCE, self._entry.gates.smoke.max_concurrent),
        }
        # The search needs gold and nothing else; where rewards compare replies, all of a task go together.
        first = POLICIES if self._grouped() else POLICIES[:1]
        with self._stage("rewards", may_fail=True, ends=False):
            self._ask_policies(worker, first, limits)
        if self._wish.score and not self._wish.only_replies:
            self._begin_search(worker)
        if "rewards" not in self._collected.failures:
            with self._stage("rewards", may_fail=True):
                self._ask_policies(worker, POLICIES[len(first) :], limits)
                cases = [asdict(case) for case in self._package.cases]
                self._collect(worker.request("cases", STAGE_SECONDS, cases=cases, **limits), len(cases))

    def _ask_validation(self, worker: WorkerProcess) -> None:
        with self._stage("validation", may_fail=True):
            self._collect(worker.request("validation", STAGE_SECONDS, limit=TASKS_VALIDATED, seconds=60.0))

    def _grouped(self) -> bool:
        described = self._collected.description
        return any(one.group for one in described.functions) if described else False

    def _ask_policies(self, worker: WorkerProcess, policies: Sequence[str], limits: Mapping[str, float]) -> None:
        asked = {"policies": policies, "sampled": SAMPLED, "conversations": TASKS_PLAYED}
        if policies:
            total = len(self._collected.parts.get("task", ())) * len(policies)
            self._collect(worker.request("rewards", STAGE_SECONDS, **asked, **limits), total)

    def _ask_invariants(self, worker: WorkerProcess) -> None:
        with self._stage("invariants", may_fail=True):
            request = worker.request(
                "invariants",
                STAGE_SECONDS,
                seconds=SECONDS_PER_REPLY,
                budget=INVARIANTS_SECONDS,
                sweep=TASKS_SWEPT,
                sample=follows_hash_order(self._package),
                secrets=self._entry.secrets,
            )
            self._collect(request)

    def _ask_other_seed(self, venv: VirtualEnvironment, overlay: Path, confinement: Confinement) -> None:
        """Score a sample in a second process, where the order of sets could reach a reward."""
        sample = self._collected.parts.pop("sample", [])
        described = self._collected.description
        if sample and described is not None:
            settings = worker_settings(self._entry, self._package, overlay, allow_network=self._wish.allow_network)
            server = self._origin(venv, overlay, replace(confinement, hash_seed=OTHER_SEED)).server
            repetition = with_other_seed(
                venv,
                overlay,
                self._workspace,
                confinement,
                settings,
                sample,
                self._stop,
                server,
                conversational=described.conversational,
            )
            self._collected.parts.setdefault("repetition", []).append(repetition)

    def _begin_mutation(self, worker: WorkerProcess, overlay: Path) -> None:
        """Mutate the reward code; what was scored before is what the mutants are asked about."""
        with self._stage("mutation", may_fail=True, ends=False):
            if self._collected.description is None:
                return
            scored = self._collected.kept("score"), self._collected.kept("case")
            ask = partial(worker.request, "mutation")
            described = self._collected.description
            self._mutation = begin_mutation(ask, self._package, overlay, described, *scored)

    def _collect_mutation(self) -> None:
        if self._mutation is not None:
            with self._stage("mutation", may_fail=True):
                self._collected.mutation = self._mutation.result()

    def _begin_search(self, worker: WorkerProcess) -> None:
        with self._stage("search", may_fail=True, ends=False):
            toolbox = search_toolbox(self._workspace, self._stop)
            described = self._collected.description
            conversational = described is not None and described.conversational
            self._collect(search_request(worker, self._package, toolbox, conversational=conversational))

    def _collect_search(self, worker: WorkerProcess) -> None:
        if "search" not in self._collected.failures:
            with self._stage("search", may_fail=True):
                self._collect(worker.request("search", STAGE_SECONDS))

    def _begin_rollouts(self, worker: WorkerProcess) -> None:
        """Let rollouts be played beside the stages that follow; what does not come of it is played when it is asked."""
        if self._wish.evaluate and self._wish.harness is None and not self._package.fresh_process:
            asked = [asdict(one) | {"policies": [one.policy]} for one in self._evaluations()]
            self._collect(worker.request("ahead", LOAD_SECONDS, evaluations=asked))

    def _ask_rollouts(self, worker: WorkerProcess) -> None:
        key = facts_key(self._entry, self._package, self._wish)
        journal = Journal.of(self._workspace, self._entry.name, key, fresh=not self._wish.use_cache)
        for asked in self._evaluations():
            with self._stage(asked.stage, may_fail=True):
                if self._wish.harness is not None:
                    seat_harness(worker, self._wish.harness, self._workspace, allow_network=self._wish.allow_network)
                parts = evaluation(worker, asked, journal, self._watcher.detail, whole_groups=self._grouped())
                self._collected.asked[asked.policy] = asked.tasks * asked.rollouts
                self._collect(parts, asked.tasks * asked.rollouts)

    def _evaluations(self) -> Iterator[ScriptedEvaluation]:
        """What smoke and distribution ask for."""
        smoke, spread = self._entry.gates.smoke, self._entry.gates.distribution
        there = len(self._collected.parts.get("task", ()))
        tasks = self._wish.tasks or spread.tasks
        least = max(smoke.rollouts, spread.group_size, ceil(spread.min_rollouts / tasks))
        asked = partial(ScriptedEvaluation, seconds=smoke.timeout_s, harness=self._wish.harness)
        if "smoke" in self._wish.evaluations:
            rollouts, most = self._wish.rollouts or smoke.rollouts, self._wish.tasks or smoke.tasks
            yield asked("smoke", "oracle", min(most, there), rollouts, smoke.max_concurrent)
        if "distribution" in self._wish.evaluations:
            rollouts, at_once = self._wish.rollouts or least, min(AT_ONCE, smoke.max_concurrent)
            # The smoke gate shows that a connection works; many more of them would show it again.
            yield asked("distribution", "blend", min(tasks, there), rollouts, at_once, connected=False)

    def _ask_recordings(self, worker: WorkerProcess) -> None:
        """Score recorded replies again."""
        with self._stage("recordings", may_fail=True):
            from envops.observe.recording_check import check_recordings

            described, tasks = self._collected.description, self._collected.kept("task")
            if described is not None:
                checks = check_recordings(worker.request, self._entry, self._package, described, tasks)
                self._collected.parts["recording"] = list(checks)

    @contextmanager
    def _stage(self, stage: Stage, *, may_fail: bool = False, ends: bool = True) -> Iterator[None]:
        """Time a stage and file its failure; the observation goes on only where that makes sense.

        With `ends=False` the block only begins the stage.
        """
        self._watcher.stage(stage)
        started = time.monotonic()
        try:
            yield
            if ends:
                self._collected.completed.append(stage)
        except (StageFailed, ProgramFailed) as error:
            self._collected.failures[stage] = error.failure
            if isinstance(error, WorkerLost) or not may_fail:
                raise
        finally:
            spent = self._collected.seconds.get(stage, 0.0) + time.monotonic() - started
            self._collected.seconds[stage] = round(spent, 3)

    def _collect(self, answers: Iterator[tuple[str, Any]], total: int = 0) -> None:
        self._collected.take(answers, self._watcher.advance, total)
