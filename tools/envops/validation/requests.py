"""Everything that the jobs of one environment are asked, as far as it does not follow from what they answer.

An observation sees an entry and a wish only through these requests. So the key of its facts is made from them: what
is not in here can change nothing that is seen, and what is in here changes the key.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

from envops_worker.policies.baselines import oracle
from envops_worker.policies.blend import BLEND

from envops.facts.limits import (
    AT_ONCE,
    INVARIANTS_SECONDS,
    POLICIES,
    SAMPLED,
    SECONDS_PER_REPLY,
    TASKS_PLAYED,
    TASKS_SWEPT,
    TASKS_VALIDATED,
)
from envops.facts.observed import Stage
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.validation.evaluating import ScriptedEvaluation
from envops.validation.job import Confinement


@dataclass(frozen=True)
class Wish:
    """What to observe, and how."""

    allow_network: bool = False
    use_cache: bool = True
    evaluate: bool = True
    """Whether rollouts are wanted: the smoke and the distribution gate stand on them."""
    score: bool = True
    """Whether scores, cases and tests are wanted: the rewards gate stands on them."""
    only_replies: bool = False
    """Whether of all that only what policies and cases say is wanted, without what is slow to see."""
    harness: str | None = None
    """The harness of v1 that plays; `None` is the one that runs in the worker and needs no network."""
    evaluations: tuple[Stage, ...] = ("smoke", "distribution")
    """Which of them are played, where rollouts are wanted."""
    tasks: int | None = None
    """On how many tasks, in place of what the gates say."""
    rollouts: int | None = None
    """How many on each, in place of what the gates say."""


@dataclass(frozen=True)
class Requests:
    """What jobs are given and asked; `None` where a stage is not wanted."""

    confinement: Confinement
    args: Mapping[str, Any]
    """What the environment is loaded with."""
    rewards: Mapping[str, Any] | None = None
    cases: Mapping[str, Any] | None = None
    """Without the cases themselves, which are the package's own."""
    validation: Mapping[str, Any] | None = None
    invariants: Mapping[str, Any] | None = None
    beside_replies: bool = False
    """Whether the author's tests, the search, mutants and repetitions are wanted: they depend on the package alone."""
    evaluations: tuple[ScriptedEvaluation, ...] = ()
    recordings: Mapping[str, Any] | None = None
    day: str = ""
    """With an open network: what lies beyond loopback changes from day to day."""
    names_of_secrets: tuple[str, ...] = field(default=())

    def digest(self) -> str:
        """A digest of all of it, in which values of secrets cannot be read."""
        hidden = {name: hashlib.sha256(repr(value).encode()).hexdigest() for name, value in self._secrets().items()}
        data = replace(self, confinement=replace(self.confinement, secrets=hidden))
        return hashlib.sha256(json.dumps(data, sort_keys=True, default=_plain).encode()).hexdigest()

    def _secrets(self) -> dict[str, str | None]:
        return {name: self.confinement.secrets.get(name) for name in self.names_of_secrets}

    def settings(self, package: Package, overlay: Path) -> dict[str, Any]:
        """What a job must know of the package before it can load the environment."""
        return {
            "module": package.module,
            "generation": package.generation or "v1",
            "args": dict(self.args),
            "package": str(package.folder.resolve()),
            "overlay": str(overlay.resolve()),
            "answer_type": package.answer.type,
            "tolerance": package.answer.tolerance,
            "case_sensitive": package.answer.case_sensitive,
            "allow_network": self.confinement.allow_network,
        }


def _plain(value: object) -> object:
    """A request as JSON can hold it; `asdict` would copy all that it holds."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    return str(value)


def requests_for(entry: EnvironmentEntry, wish: Wish) -> Requests:
    """The requests that an entry and a wish come to."""
    secrets = {name: os.environ[name] for name in entry.secrets if name in os.environ}
    requests = Requests(
        Confinement(secrets, wish.allow_network),
        entry.args,
        day=_today() if wish.allow_network else "",
        names_of_secrets=entry.secrets,
    )
    limits = {"seconds": SECONDS_PER_REPLY, "max_concurrent": min(AT_ONCE, entry.gates.smoke.max_concurrent)}
    whole = wish.score and not wish.only_replies
    if wish.score or wish.evaluate:
        policies = {"policies": POLICIES, "sampled": SAMPLED, "conversations": TASKS_PLAYED}
        requests = replace(requests, rewards={**policies, **limits}, cases=limits)
        if not wish.only_replies:
            requests = replace(requests, validation={"limit": TASKS_VALIDATED, "seconds": 60.0})
    if whole:
        invariants = {"seconds": SECONDS_PER_REPLY, "budget": INVARIANTS_SECONDS, "sweep": TASKS_SWEPT}
        requests = replace(requests, beside_replies=True, invariants={**invariants, "secrets": entry.secrets})
    if wish.evaluate and not wish.only_replies:
        at_once = {"max_concurrent": entry.gates.smoke.max_concurrent}
        requests = replace(requests, evaluations=tuple(_evaluations(entry, wish)), recordings=at_once)
    return requests


def _evaluations(entry: EnvironmentEntry, wish: Wish) -> Iterator[ScriptedEvaluation]:
    """What smoke and distribution ask for, on no more tasks than there are."""
    smoke, spread = entry.gates.smoke, entry.gates.distribution
    tasks = wish.tasks or spread.tasks
    least = max(smoke.rollouts, spread.group_size, ceil(spread.min_rollouts / tasks))
    asked = partial(ScriptedEvaluation, seconds=smoke.timeout_s, harness=wish.harness)
    if "smoke" in wish.evaluations:
        yield asked(
            "smoke", oracle.name, wish.tasks or smoke.tasks, wish.rollouts or smoke.rollouts, smoke.max_concurrent
        )
    if "distribution" in wish.evaluations:
        at_once = min(AT_ONCE, smoke.max_concurrent)
        # The smoke gate shows that a connection works; many more of them would show it again.
        yield asked("distribution", BLEND, tasks, wish.rollouts or least, at_once, connected=False)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
