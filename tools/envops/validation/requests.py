"""The requests to jobs, from an entry and a request."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

from envops.facts import stages
from envops.facts.stages import StageName, with_needs
from envops.repository.registry import EnvironmentEntry
from envops.validation.job import Confinement
from envops.validation.observation_request import ObservationRequest, Requests
from envops.validation.stage import job_of


def requests_for(entry: EnvironmentEntry, request: ObservationRequest) -> Requests:
    """The requests that follow from an entry and a request."""
    secrets = {name: os.environ[name] for name in entry.secrets if name in os.environ}
    return Requests(
        Confinement(secrets, request.allow_network),
        entry.args,
        _of_stages(entry, request),
        day=_today() if request.allow_network else "",
        names_of_secrets=entry.secrets,
        budget=entry.gates.budget,
    )


def _of_stages(entry: EnvironmentEntry, request: ObservationRequest) -> dict[StageName, Any]:
    chosen = None if request.stages is None else with_needs(request.stages)
    wanted = [stage for stage in stages.STAGES if stage.job and (chosen is None or stage.name in chosen)]
    asked = {stage.name: job_of(stage).request(entry, request) for stage in wanted}
    return {name: one for name, one in asked.items() if one is not None}


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
