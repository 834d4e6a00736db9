"""The stage `pace`: scores the first replies, so that all later work fits into the budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.limits import SECONDS_PER_REPLY, STAGE_SECONDS
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.stage import Observation, StageJob


def _request(_: EnvironmentEntry, request: ObservationRequest) -> Mapping[str, Any] | None:
    wanted = request.wants_replies or request.wants_rollouts
    return {"seconds": SECONDS_PER_REPLY} if wanted else None


def _run(observation: Observation, asked: Mapping[str, Any]) -> None:
    with observation.processes.job() as job:
        observation.collected.take("pace", job.request("pace", STAGE_SECONDS, **asked))


JOBS = {"pace": StageJob(_request, _run)}
