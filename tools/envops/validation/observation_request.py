"""The request of a command for an observation, and the requests to its jobs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from envops.facts.stages import StageName
from envops.repository.package import Package
from envops.validation.job import Confinement


@dataclass(frozen=True)
class ObservationRequest:
    """The request for an observation."""

    allow_network: bool = False
    use_cache: bool = True
    evaluate: bool = True
    """Whether rollouts are wanted, which the gates smoke and distribution need."""
    score: bool = True
    """Whether scores, cases and tests are wanted, which the gate rewards needs."""
    only_replies: bool = False
    """Whether of all that only the replies of policies and cases are wanted, without what is slow to observe."""
    harness: str | None = None
    """The harness of verifiers v1 that plays; `None` is the one that runs in the worker and needs no network."""
    evaluations: tuple[StageName, ...] = ("smoke", "distribution")
    """Which of them are played, where rollouts are wanted."""
    tasks: int | None = None
    """On how many tasks, instead of what the gates declare."""
    rollouts: int | None = None
    """How many on each, instead of what the gates declare."""
    stages: tuple[StageName, ...] | None = None
    """Only these stages and those that they need; `None` is every stage that the other settings require."""

    def of_package(self, package: Package) -> ObservationRequest:
        """The same of what the package has: a harness is only loaded."""
        return replace(self, stages=()) if package.is_harness else self

    @property
    def wants_replies(self) -> bool:
        """Whether policies reply: rollouts are compared with their scores too."""
        return self.score or self.evaluate

    @property
    def wants_whole_gate(self) -> bool:
        """Whether everything of the gate rewards is wanted."""
        return self.score and not self.only_replies

    @property
    def wants_rollouts(self) -> bool:
        return self.evaluate and not self.only_replies


@dataclass(frozen=True)
class Requests:
    """The inputs and requests of jobs, as far as they do not follow from earlier answers.

    An observation depends on an entry and a request only through this, so the key of its facts is made from it: what is
    not in here cannot change an observation, and what is in here changes the key.
    """

    confinement: Confinement
    args: Mapping[str, Any]
    """What the environment is loaded with."""
    held_out: Mapping[str, Any] | None = None
    """What it is loaded with on top, for tasks to evaluate on; `None` where none are declared."""
    stages: Mapping[StageName, Any] = field(default_factory=dict)
    """The request of every stage that is wanted."""
    day: str = ""
    """With an open network: what lies beyond loopback changes from day to day."""
    names_of_secrets: tuple[str, ...] = ()
    budget: float = 120.0
    """Seconds of wall time after the import."""
    prepared: str = ""
    """Digest of the files that its home begins with, where it declares some."""

    def digest(self) -> str:
        """A digest of all of it, in which values of secrets cannot be read."""
        secrets = {name: self.confinement.secrets.get(name) for name in self.names_of_secrets}
        hidden = {name: hashlib.sha256(repr(value).encode()).hexdigest() for name, value in secrets.items()}
        data = replace(self, confinement=replace(self.confinement, secrets=hidden, home=None))
        return hashlib.sha256(json.dumps(data, sort_keys=True, default=_plain).encode()).hexdigest()

    def settings(self, package: Package, overlay: Path) -> dict[str, Any]:
        """The settings that a job needs to load the environment."""
        return {
            "module": package.module,
            "generation": package.generation or "v1",
            "args": dict(self.args),
            "held_out": None if self.held_out is None else dict(self.held_out),
            "package": str(package.folder.resolve()),
            "overlay": str(overlay.resolve()),
            "answer_type": package.answer.type,
            "tolerance": package.answer.tolerance,
            "case_sensitive": package.answer.case_sensitive,
            "allow_network": self.confinement.allow_network,
            "is_harness": package.is_harness,
            "prepared": self.confinement.home is not None,
        }


def _plain(value: object) -> object:
    """A request as JSON can hold it; `asdict` would copy all that it holds."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    return str(value)
