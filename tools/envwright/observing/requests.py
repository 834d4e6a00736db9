"""The requests to jobs, from an entry and a request."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from envwright.builds.prepared_home import MISSING, prepared_home
from envwright.declarations.granted_variables import granted_variables
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.facts import stages
from envwright.facts.observed import NOT_PREPARED, Failure
from envwright.facts.stages import StageName, with_needs
from envwright.observing.job import Confinement, StageFailed
from envwright.observing.observation_request import ObservationRequest, Requests
from envwright.observing.stage import job_of


def requests_for(entry: EnvironmentEntry, request: ObservationRequest, package: Package | None = None) -> Requests:
    """The requests that follow from an entry and a request.

    The package decides which data was prepared; if the entry declares none, it may be left out.
    """
    secrets = granted_variables(entry.secrets, package.folder.parents[1] if package else None)
    home, prepared = None, ""
    if entry.prepare.needed:
        assert package is not None
        home = prepared_home(entry, package)
        prepared = home.content if home else MISSING
    return Requests(
        Confinement(
            secrets,
            request.allow_network,
            entry.gates.memory_mib * 2**20,
            sandbox=entry.sandbox,
            has_harness=request.harness is not None,
            home=home.home if home else None,
        ),
        entry.args,
        None if entry.eval is None else entry.eval.settings(package.generation if package else None),
        _of_stages(entry, request),
        day=_today() if request.allow_network else "",
        names_of_secrets=entry.secrets,
        budget=entry.gates.budget,
        prepared=prepared,
    )


def require_prepared(environment: str, requests: Requests) -> None:
    """Raise `StageFailed` if declared data is missing and may not be downloaded."""
    if requests.prepared == MISSING and not requests.confinement.allow_network:
        message = f"the data that registry.yaml declares is not on this machine: envwright prepare {environment}"
        raise StageFailed(Failure("network", NOT_PREPARED, message))


def _of_stages(entry: EnvironmentEntry, request: ObservationRequest) -> dict[StageName, Any]:
    chosen = None if request.stages is None else with_needs(request.stages)
    wanted = [stage for stage in stages.STAGES if stage.job and (chosen is None or stage.name in chosen)]
    asked = {stage.name: job_of(stage).request(entry, request) for stage in wanted}
    return {name: one for name, one in asked.items() if one is not None}


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
