"""The stages `rewards` and `validation`: replies of policies, the author's cases, the package's own check.

One job does both. `invariants` continues with it, because it knows the scored conversations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from envwright_worker.policies.baselines import oracle
from envwright_worker.policies.policy import SCORED_TWICE

from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.limits import (
    AT_ONCE,
    CORE,
    POLICIES,
    SAMPLED,
    SECONDS_PER_REPLY,
    STAGE_SECONDS,
    TASKS_PLAYED,
    TASKS_VALIDATED,
)
from envwright.observing.budget import cost_of, current_deadline, fitting
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.stage import Observation, StageJob

SECONDS_PER_VALIDATION = 60.0
POLICIES_SHARE = 0.8
"""The part of the stage's time that policies get; the author's cases get the rest."""
MANY_REPLIES = 10**9
"""Replies to score without a limit."""


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
    """The number of rollouts of a task that the smoke evaluation compares."""
    return request.rollouts or entry.gates.smoke.rollouts


def _score_replies(observation: Observation, asked: Mapping[str, Mapping[str, Any]]) -> None:
    job = observation.open.enter_context(observation.processes.job())
    collected, policies = observation.collected, {**asked["rewards"], **_that_fits(observation, asked["rewards"])}
    total = len(observation.tasks) * len(policies["policies"])
    collected.take("rewards", job.request("rewards", STAGE_SECONDS, **policies), total)
    cases = [asdict(case) for case in observation.package.cases]
    collected.take("rewards", job.request("cases", STAGE_SECONDS, cases=cases, **asked["cases"]), len(cases))
    observation.scoring = job


def _that_fits(observation: Observation, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The changes of the request if replies are slow: fewer tasks, and only the first is scored twice."""
    if observation.collected.kept("endless"):  # no other policy would finish
        return {"policies": [oracle.name]}
    bound = current_deadline()
    seconds = POLICIES_SHARE * (bound.seconds if bound else math.inf)
    if observation.description.conversational:
        rollouts = min(MANY_REPLIES, fitting(observation.pace, seconds, asked["max_concurrent"]))
        tasks = int(rollouts // (len(asked["policies"]) + 1))
        if tasks >= asked["conversations"]:
            return {}
        fewer = {"conversations": max(1, tasks), "usual": asked["conversations"]}
        return {**fewer, "policies": _core_first(asked["policies"])}
    return _fewer_replies(observation, asked, fitting(observation.pace, seconds))


def _fewer_replies(observation: Observation, asked: Mapping[str, Any], replies: float) -> Mapping[str, Any]:
    tasks, names = len(observation.tasks), asked["policies"]
    in_company = any(function.group for function in observation.description.functions)
    usual = sum(min(tasks, asked["sampled"].get(name, tasks)) for name in names)
    if replies >= usual + SCORED_TWICE * len(names):
        return {}
    fewer = {"cost": cost_of(observation.pace), "policies": _core_first(names)}
    if in_company:  # every policy replies on each of the tasks
        return {**fewer, "tasks": max(1, int(replies // len(names)))}
    gold = max(1, min(tasks, int(replies // 4)))
    each = max(1, int((replies - gold - len(CORE)) // len(names)))
    sampled = {name: min(most, each) for name, most in asked["sampled"].items()}
    return {**fewer, "tasks": max(gold, min(tasks, each)), "sampled": sampled}


def _core_first(names: Sequence[str]) -> list[str]:
    """The policies, indispensable ones first."""
    return sorted(names, key=lambda name: name not in CORE)


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
