"""The implementation of a stage: its requests to jobs, and their processing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from envwright.builds.venv import VirtualEnvironment
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.observed import Description, Pace
from envwright.facts.stages import Stage
from envwright.observing.budget import Budget
from envwright.observing.collected_facts import CollectedFacts
from envwright.observing.job import Job
from envwright.observing.journal import Journal
from envwright.observing.observation_request import ObservationRequest, Requests
from envwright.observing.templates import EnvironmentProcesses, LockTemplates, environment_processes
from envwright.system.workspace import Workspace

_Request = TypeVar("_Request")


@dataclass
class Observation:
    """One environment while it is observed. Stages with jobs find it loaded."""

    entry: EnvironmentEntry
    package: Package
    workspace: Workspace
    requests: Requests
    journal: Journal
    templates: LockTemplates
    stop: threading.Event
    budget: Budget
    collected: CollectedFacts
    """The facts so far, to which the stages add theirs."""
    venv: VirtualEnvironment = field(init=False)
    overlay: Path = field(init=False)
    """The folder that its wheel is unpacked into."""
    processes: EnvironmentProcesses = field(init=False)
    scoring: Job | None = None
    """The job that scored replies, for stages that continue with the same conversations."""
    open: ExitStack = field(default_factory=ExitStack)
    """The resources that close when all stages have ended."""

    @property
    def pace(self) -> Pace | None:
        """The duration of the first replies, if it was measured."""
        return next(iter(self.collected.kept("pace")), None)

    @property
    def description(self) -> Description:
        """The environment's description. Loading succeeded, so there is one."""
        assert self.collected.description is not None
        return self.collected.description

    def new_processes(self, hash_seed: int = 0) -> AbstractContextManager[EnvironmentProcesses]:
        """Processes of the environment that have not loaded it, under a hash seed."""
        confinement = replace(self.requests.confinement, hash_seed=hash_seed)
        settings = self.requests.settings(self.package, self.overlay)
        return environment_processes(
            self.venv, self.package, self.overlay, settings, confinement, self.workspace, self.stop, self.templates
        )


@dataclass(frozen=True)
class StageJob(Generic[_Request]):
    """The implementation of one stage."""

    request: Callable[[EnvironmentEntry, ObservationRequest], _Request | None]
    """All requests of the stage to jobs, as far as entry and request decide them; `None` if the stage is not
    requested.

    The key of the facts is made from it.
    """
    run: Callable[[Observation, _Request], None]
    """Runs the stage. A `StageFailed` or `ProgramFailed` that it raises ends this stage and no other."""
    applies: Callable[[Observation], bool] = lambda _: True
    """Whether there is work to do after the stages that it needs."""


def job_of(stage: Stage) -> StageJob[Any]:
    """The job of a stage that has one, from its module's `JOBS`."""
    jobs: dict[str, StageJob[Any]] = import_module(f"envwright.observing.stages.{stage.job}").JOBS
    return jobs[stage.name]
