"""A worker that has loaded an environment and waits for requests, for the commands that send few."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from envwright.builds.venv import environment_venv
from envwright.builds.wheel import built_wheel
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.limits import LOAD_SECONDS
from envwright.facts.observed import Description
from envwright.observing.job import Job, checked
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.stage import requests_for, require_prepared
from envwright.observing.templates import environment_processes
from envwright.system.workspace import Workspace


@dataclass(frozen=True)
class OpenedEnvironment:
    """A loaded environment."""

    worker: Job
    description: Description


@contextmanager
def opened_environment(
    entry: EnvironmentEntry, package: Package, workspace: Workspace, allow_network: bool, stop: threading.Event
) -> Iterator[OpenedEnvironment]:
    """Load an environment in a worker of its own; the worker ends with the block.

    Raises `ProgramFailed` or `StageFailed` when it cannot be loaded, `Interrupted` when
    `stop` is set.
    """
    venv = environment_venv(package, workspace, stop)
    overlay = built_wheel(package, workspace, stop).overlay
    requests = requests_for(entry, ObservationRequest(allow_network=allow_network), package)
    require_prepared(entry.name, requests)
    settings = requests.settings(package, overlay)
    with (
        environment_processes(venv, package, overlay, settings, requests.confinement, workspace, stop) as processes,
        processes.unloaded_job() as worker,
    ):
        parts = dict(worker.request("load", LOAD_SECONDS, settings=settings))
        yield OpenedEnvironment(worker, checked(Description, parts["description"]))
