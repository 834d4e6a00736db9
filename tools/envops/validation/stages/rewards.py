"""The stages `rewards` and `validation`: replies of policies, the author's cases, the package's own check.

One job does both, and `invariants` goes on with it: it knows the conversations that were scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from envops.facts.limits import (
    AT_ONCE,
    POLICIES,
    SAMPLED,
    SECONDS_PER_REPLY,
    STAGE_SECONDS,
    TASKS_PLAYED,
    TASKS_VALIDATED,
)
from envops.repository.registry import EnvironmentEntry
from envops.validation.observation_request import ObservationRequest
from envops.validation.stage import Observation, StageJob

SECONDS_PER_VALIDATION = 60.0


def _rewards_request(entry: EnvironmentEntry, request: ObservationRequest) -> Mapping[str, Mapping[str, Any]] | None:
    """The requests for policies and cases; the cases themselves are the package's own."""
    if not request.wants_replies:
        return None
    limits = {"seconds": SECONDS_PER_REPLY, "max_concurrent": min(AT_ONCE, entry.gates.smoke.max_concurrent)}
    policies = {
        "policies": POLICIES,
        "sampled": SAMPLED,
        "conversations": TASKS_PLAYED,
        "group": _group(entry, request),
    }
    return {"rewards": {**policies, **limits}, "cases": limits}


def _group(entry: EnvironmentEntry, request: ObservationRequest) -> int:
    """How many rollouts of a task the smoke evaluation compares."""
    return request.rollouts or entry.gates.smoke.rollouts


def _score_replies(observation: Observation, asked: Mapping[str, Mapping[str, Any]]) -> None:
    job = observation.open.enter_context(observation.processes.job())
    collected, policies = observation.collected, asked["rewards"]
    total = len(collected.kept("task")) * len(policies["policies"])
    collected.take("rewards", job.request("rewards", STAGE_SECONDS, **policies), total)
    cases = [asdict(case) for case in observation.package.cases]
    collected.take("rewards", job.request("cases", STAGE_SECONDS, cases=cases, **asked["cases"]), len(cases))
    observation.scoring = job


def _validation_request(_: EnvironmentEntry, request: ObservationRequest) -> Mapping[str, Any] | None:
    if not request.wants_replies or request.only_replies:
        return None
    return {"limit": TASKS_VALIDATED, "seconds": SECONDS_PER_VALIDATION}


def _validate_tasks(observation: Observation, asked: Mapping[str, Any]) -> None:
    assert observation.scoring is not None
    observation.collected.take("validation", observation.scoring.request("validation", STAGE_SECONDS, **asked))


JOBS = {
    "rewards": StageJob(_rewards_request, _score_replies),
    "validation": StageJob(_validation_request, _validate_tasks, lambda observation: observation.scoring is not None),
}
