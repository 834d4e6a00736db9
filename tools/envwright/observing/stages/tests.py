"""The stage `tests`: the author's pytest tests, run by a job that has loaded the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envwright.builds.venv import venv_for
from envwright.builds.wheel import TESTS_LOCK
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.limits import TESTS_SECONDS
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.stage import Observation, StageJob


def _request(_: EnvironmentEntry, request: ObservationRequest) -> Mapping[str, Any] | None:
    return {} if request.wants_whole_gate else None


def _run(observation: Observation, _: Mapping[str, Any]) -> None:
    files = list(observation.package.test_files)
    if not files:
        return  # known to be none, so the stage has ended
    toolbox = venv_for(TESTS_LOCK, observation.workspace, observation.stop).site_packages
    with observation.processes.job() as job:
        observation.collected.take("tests", job.request("tests", TESTS_SECONDS, files=files, toolbox=str(toolbox)))


JOBS = {"tests": StageJob(_request, _run)}
