"""Everything that the jobs of one environment are asked, as far as it does not follow from their answers.

An observation depends on an entry and a request only through this. So the key of its facts is made from it: what is not
in here cannot change an observation, and what is in here changes the key.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from envops.facts import stages
from envops.facts.stages import StageName, with_needs
from envops.repository.package import Package
from envops.repository.registry import EnvironmentEntry
from envops.validation.job import Confinement
from envops.validation.observation_request import ObservationRequest
from envops.validation.stage import job_of


@dataclass(frozen=True)
class Requests:
    """What jobs are given and asked."""

    confinement: Confinement
    args: Mapping[str, Any]
    """What the environment is loaded with."""
    stages: Mapping[StageName, Any] = field(default_factory=dict)
    """The request of every stage that is wanted."""
    day: str = ""
    """With an open network: what lies beyond loopback changes from day to day."""
    names_of_secrets: tuple[str, ...] = ()

    def digest(self) -> str:
        """A digest of all of it, in which values of secrets cannot be read."""
        secrets = {name: self.confinement.secrets.get(name) for name in self.names_of_secrets}
        hidden = {name: hashlib.sha256(repr(value).encode()).hexdigest() for name, value in secrets.items()}
        data = asdict(replace(self, confinement=replace(self.confinement, secrets=hidden)))
        return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()

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


def requests_for(entry: EnvironmentEntry, request: ObservationRequest) -> Requests:
    """The requests that follow from an entry and a request."""
    secrets = {name: os.environ[name] for name in entry.secrets if name in os.environ}
    return Requests(
        Confinement(secrets, request.allow_network),
        entry.args,
        _of_stages(entry, request),
        day=_today() if request.allow_network else "",
        names_of_secrets=entry.secrets,
    )


def _of_stages(entry: EnvironmentEntry, request: ObservationRequest) -> dict[StageName, Any]:
    chosen = None if request.stages is None else with_needs(request.stages)
    wanted = [stage for stage in stages.STAGES if stage.job and (chosen is None or stage.name in chosen)]
    asked = {stage.name: job_of(stage).request(entry, request) for stage in wanted}
    return {name: one for name, one in asked.items() if one is not None}


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
