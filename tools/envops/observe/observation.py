"""Observing one environment from the lock to the last rollout, and remembering what was seen."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

from envops.declare.package import Package
from envops.declare.registry import EnvironmentEntry
from envops.observe.facts import (
    Case,
    Dataset,
    Description,
    Facts,
    Failure,
    NetworkAttempt,
    Rollout,
    Score,
    Stage,
    Task,
    TestOutcome,
    Validation,
    read_facts,
    write_facts,
)
from envops.observe.process import Confinement, StageFailed, WorkerLost, WorkerProcess, checked
from envops.observe.subprocesses import ProgramFailed
from envops.observe.venv import venv_for
from envops.observe.wheel import TESTS_LOCK, built_wheel
from envops.observe.workspace import Workspace, tool_digest

POLICIES = (
    "oracle",
    "nop",
    "echo",
    "near-miss",
    "format-only",
    "hedge",
    "override",
    "look-alike",
    "negated",
    "wrong-first",
    "wrong-last",
    "think-only",
    "unclosed-think",
    "padded",
    "equivalent",
    "canary-colon",
    "canary-thought",
    "long-junk",
)
SAMPLED = {policy: 20 for policy in POLICIES[7:]} | {"long-junk": 2}
"""Policy → on how many tasks it speaks, where one task tells nearly what all would."""
TASKS_SCORED = 100
TASKS_PLAYED = 12
TASKS_VALIDATED = 100
SECONDS_PER_REPLY = 10.0
LOAD_SECONDS = 300.0
STAGE_SECONDS = 900.0
TESTS_SECONDS = 300.0
FACTS_KEPT = 5


@dataclass(frozen=True)
class Wish:
    """What to observe, and how."""

    allow_network: bool = False
    use_cache: bool = True
    evaluate: bool = True
    """Whether rollouts are wanted: the smoke and the distribution gate stand on them."""
    score: bool = True
    """Whether scores, cases and tests are wanted: the rewards gate stands on them."""


@dataclass(frozen=True)
class Watcher:
    """Who wants to know how far an observation is."""

    stage: Callable[[Stage], None]
    advance: Callable[[int, int], None]


@dataclass
class _Collected:
    """Facts while they are still coming in."""

    description: Description | None = None
    parts: dict[str, list[Any]] = field(default_factory=dict)
    failures: dict[Stage, Failure] = field(default_factory=dict)
    completed: list[Stage] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def kept(self, kind: str) -> tuple[Any, ...]:
        return tuple(self.parts.get(kind, ()))


KINDS: dict[str, type] = {
    "task": Task,
    "dataset": Dataset,
    "score": Score,
    "case": Case,
    "validation": Validation,
    "test": TestOutcome,
    "rollout": Rollout,
    "network": NetworkAttempt,
}


def facts_key(entry: EnvironmentEntry, package: Package, wish: Wish) -> str:
    """Digest of everything that can change what an observation sees."""
    settings = {
        "package": package.digest,
        "lock": package.lock.digest if package.lock else "",
        "tool": tool_digest(),
        "python": sys.version,
        "args": dict(entry.args),
        "secrets": {name: hashlib.sha256(os.environ.get(name, "").encode()).hexdigest() for name in entry.secrets},
        "smoke": asdict(entry.gates.smoke),
        "group_size": entry.gates.distribution.group_size,
        "min_rollouts": entry.gates.distribution.min_rollouts,
        "wish": [wish.allow_network, wish.evaluate, wish.score],
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()


def remembered(entry: EnvironmentEntry, package: Package, workspace: Workspace, wish: Wish) -> Facts | None:
    """Facts of an earlier observation that still hold, perhaps of one that saw more than is wished.

    A damaged file is as good as none.
    """
    if not wish.use_cache:
        return None
    for wider in (replace(wish, evaluate=True, score=True), wish):
        key = facts_key(entry, package, wider)
        try:
            facts = read_facts(workspace.facts / entry.name / f"{key}.json")
        except (OSError, ValueError):
            continue
        if facts.key == key and facts.environment == entry.name:
            return facts
    return None


def observe(
    entry: EnvironmentEntry,
    package: Package,
    workspace: Workspace,
    wish: Wish,
    watcher: Watcher,
    stop: threading.Event,
) -> Facts:
    """Observe an environment afresh and remember what was seen.

    What the environment does wrong is in the facts' failures. Raises `Interrupted` when
    `stop` is set.
    """
    collected = _Collected()
    key = facts_key(entry, package, wish)
    observer = _Observer(entry, package, workspace, wish, watcher, stop, collected)
    with suppress(WorkerLost, StageFailed, ProgramFailed):
        observer.run()
    facts = Facts(
        environment=entry.name,
        key=key,
        digest=package.digest,
        wheel=observer.wheel,
        description=observer.described(),
        tasks=collected.kept("task"),
        scores=collected.kept("score"),
        cases=collected.kept("case"),
        validations=collected.kept("validation"),
        tests=collected.kept("test"),
        rollouts=collected.kept("rollout"),
        rollouts_asked=collected.asked,
        network=collected.kept("network"),
        failures=collected.failures,
        completed=tuple(collected.completed),
        seconds=collected.seconds,
    )
    if not facts.broken_infrastructure():
        _remember(facts, workspace)
    return facts


def _remember(facts: Facts, workspace: Workspace) -> None:
    folder = workspace.facts / facts.environment
    with suppress(OSError):  # a full disk or a read-only cache costs time, not truth
        write_facts(facts, folder / f"{facts.key}.json")
        old = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in old[FACTS_KEPT:]:
            path.unlink(missing_ok=True)


def load_settings(entry: EnvironmentEntry, package: Package, overlay: Path, allow_network: bool) -> dict[str, Any]:
    """What a worker is told of the environment that it is to load."""
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
    }


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
    }


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
        collected: _Collected,
    ) -> None:
        self._entry = entry
        self._package = package
        self._workspace = workspace
        self._wish = wish
        self._watcher = watcher
        self._stop = stop
        self._collected = collected
        self.wheel: Any = None

    def run(self) -> None:
        with self._stage("venv"):
            venv = venv_for(self._package.folder / "requirements.lock", self._workspace, self._stop)
        with self._stage("wheel"):
            built = built_wheel(self._package, self._workspace, self._stop)
            self.wheel = built.wheel
        secrets = {name: os.environ[name] for name in self._entry.secrets if name in os.environ}
        confinement = Confinement(secrets, self._wish.allow_network)
        with (
            self._workspace.scratch() as scratch,
            WorkerProcess(venv, built.overlay, scratch, confinement, self._stop) as worker,
        ):
            self._ask_everything(worker, built.overlay)

    def _ask_everything(self, worker: WorkerProcess, overlay: Path) -> None:
        with self._stage("load"):
            self._collect(
                worker.request(
                    "load",
                    LOAD_SECONDS,
                    settings=worker_settings(
                        self._entry, self._package, overlay, allow_network=self._wish.allow_network
                    ),
                )
            )
        with self._stage("tasks"):
            self._collect(worker.request("tasks", LOAD_SECONDS, keep=TASKS_SCORED))
        if self._wish.score or self._wish.evaluate:
            self._ask_rewards(worker)
        if self._wish.evaluate:
            self._ask_rollouts(worker)

    def _ask_rewards(self, worker: WorkerProcess) -> None:
        limits = {"seconds": SECONDS_PER_REPLY, "max_concurrent": self._entry.gates.smoke.max_concurrent}
        with self._stage("rewards", may_fail=True):
            total = len(self._collected.parts.get("task", ())) * len(POLICIES)
            request = worker.request(
                "rewards", STAGE_SECONDS, policies=POLICIES, sampled=SAMPLED, conversations=TASKS_PLAYED, **limits
            )
            self._collect(request, total)
            cases = [asdict(case) for case in self._package.cases]
            self._collect(worker.request("cases", STAGE_SECONDS, cases=cases, **limits), len(cases))
        with self._stage("validation", may_fail=True):
            self._collect(worker.request("validation", STAGE_SECONDS, limit=TASKS_VALIDATED, seconds=60.0))
        with self._stage("tests", may_fail=True):
            files = list(self._package.test_files)
            if files:
                toolbox = venv_for(TESTS_LOCK, self._workspace, self._stop).site_packages
                tests = {"files": files, "toolbox": str(toolbox), "seconds": TESTS_SECONDS}
                self._collect(worker.request("tests", TESTS_SECONDS + 10, **tests))

    def _ask_rollouts(self, worker: WorkerProcess) -> None:
        gates = self._entry.gates
        tasks = gates.smoke.tasks
        spread = max(gates.smoke.rollouts, gates.distribution.group_size, ceil(gates.distribution.min_rollouts / tasks))
        plan: Sequence[tuple[Stage, str, int]] = (
            ("smoke", "oracle", gates.smoke.rollouts),
            ("distribution", "blend", spread),
        )
        for stage, policy, rollouts in plan:
            with self._stage(stage, may_fail=True):
                request = worker.request(
                    "evaluate",
                    gates.smoke.timeout_s + 10,
                    stage=stage,
                    policies=[policy],
                    tasks=tasks,
                    rollouts=rollouts,
                    max_concurrent=gates.smoke.max_concurrent,
                    seconds=gates.smoke.timeout_s,
                )
                self._collected.asked[policy] = min(tasks, len(self._collected.parts.get("task", ()))) * rollouts
                self._collect(request, tasks * rollouts)

    @contextmanager
    def _stage(self, stage: Stage, *, may_fail: bool = False) -> Iterator[None]:
        """Time a stage and file its failure; the observation goes on only where that makes sense."""
        self._watcher.stage(stage)
        started = time.monotonic()
        try:
            yield
            self._collected.completed.append(stage)
        except (StageFailed, ProgramFailed) as error:
            self._collected.failures[stage] = error.failure
            if isinstance(error, WorkerLost) or not may_fail:
                raise
        finally:
            self._collected.seconds[stage] = round(time.monotonic() - started, 3)

    def _collect(self, answers: Iterator[tuple[str, Any]], total: int = 0) -> None:
        count = 0
        for kind, value in answers:
            if kind == "description":
                self._collected.description = checked(Description, value)
            elif kind == "overlap" and self._collected.description is not None:
                pairs = tuple((first, second) for first, second in value["pairs"])
                self._collected.description = replace(
                    self._collected.description, overlap=pairs, overlap_count=value["count"]
                )
            elif kind in KINDS:
                self._collected.parts.setdefault(kind, []).append(checked(KINDS[kind], value))
                count += 1
                self._watcher.advance(count, max(total, count))
            else:
                failure = Failure("protocol", "ProtocolError", f"the worker sent a part of unknown kind {kind!r}")
                raise WorkerLost(failure)

    def described(self) -> Description | None:
        """The description with the data sets that were read after it."""
        description = self._collected.description
        return description and replace(description, datasets=self._collected.kept("dataset"))
