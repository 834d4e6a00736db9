"""What a stage of an observation is made of: the request that it sends to jobs, and what it does with them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from envops.facts.observed import Description
from envops.facts.stages import Stage
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.repository.workspace import Workspace
from envops.validation.collected_facts import CollectedFacts
from envops.validation.job import Confinement, Job
from envops.validation.journal import Journal
from envops.validation.observation_request import ObservationRequest
from envops.validation.templates import EnvironmentProcesses

_Request = TypeVar("_Request")


@dataclass
class Observation:
    """One environment that has been loaded, for the stages that observe it."""

    entry: EnvironmentEntry
    package: Package
    overlay: Path
    """The folder that its wheel is unpacked into."""
    workspace: Workspace
    confinement: Confinement
    journal: Journal
    stop: threading.Event
    collected: CollectedFacts
    """What the stages have observed so far, and where they put what they observe."""
    processes: EnvironmentProcesses
    processes_with_seed: Callable[[int], AbstractContextManager[EnvironmentProcesses]]
    """Makes processes of the same environment under another hash seed."""
    scoring: Job | None = None
    """The job that scored replies, for stages that go on with the same conversations."""
    open: ExitStack = field(default_factory=ExitStack)
    """Closed when all stages have ended."""

    @property
    def description(self) -> Description:
        """The environment's description. Loading succeeded, so there is one."""
        assert self.collected.description is not None
        return self.collected.description


@dataclass(frozen=True)
class StageJob(Generic[_Request]):
    """How one stage is done."""

    request: Callable[[EnvironmentEntry, ObservationRequest], _Request | None]
    """Everything that the stage asks of jobs, as far as entry and request decide it; `None` where it is not wanted.

    The key of the facts is made from it.
    """
    run: Callable[[Observation, _Request], None]
    """Does it. A `StageFailed` or `ProgramFailed` that it raises ends this stage and no other."""
    applies: Callable[[Observation], bool] = lambda _: True
    """Whether there is something to do, once the stages that it needs have ended."""


def job_of(stage: Stage) -> StageJob[Any]:
    """The job of a stage that has one, from its module's `JOBS`."""
    jobs: dict[str, StageJob[Any]] = import_module(f"envops.validation.stages.{stage.job}").JOBS
    return jobs[stage.name]
