"""The same conversations scored again by another process, and what differed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal

from envops.facts.limits import LOAD_SECONDS, SECONDS_PER_REPLY
from envops.facts.observed import Difference, Repetition
from envops.validation.job import Job, StageFailed

KEPT = 20
SECONDS_PER_ROLLOUT = 60.0

Sample = Sequence[dict[str, Any]]
"""Units: a task with conversations that are scored together, their policies and rewards, and which are `steady`."""


def repeated(
    circumstance: Literal["fresh process", "hash seed"],
    job: AbstractContextManager[Job],
    sample: Sample,
    *,
    conversational: bool,
) -> Repetition:
    """The sample scored by a job that has scored nothing before, last first.

    Where rewards compare the replies to a task they are scored together, and where the environment is multi-turn the
    rollouts are made again. What did not even earn the same twice in one process does not count.
    """
    numbered = [
        (unit["task"], policy, completion, reward, steady)
        for unit in sample
        for policy, completion, reward, steady in zip(
            unit["policies"],
            unit["completions"],
            unit["rewards"],
            unit.get("steady") or [True] * len(unit["policies"]),
            strict=True,
        )
    ]
    try:
        with job as asked:
            again = (_played if conversational else _scored)(asked, sample)
    except StageFailed as error:
        return Repetition(circumstance, 0, failure=error.failure)
    differences = [
        Difference(task, policy, tuple(completion), reward, again[number])
        for number, (task, policy, completion, reward, steady) in enumerate(numbered)
        if steady and number in again and not _same(reward, again[number])
    ]
    return Repetition(circumstance, len(again), tuple(differences[:KEPT]), len(differences))


def _scored(job: Job, sample: Sample) -> dict[int, float | None]:
    """Number of a conversation → what it earns; those of one unit are scored together."""
    conversations = [(group, unit["task"], said) for group, unit in enumerate(sample) for said in unit["completions"]]
    replies = [
        {"id": number, "group": group, "task": task, "completion": said}
        for number, (group, task, said) in enumerate(conversations)
    ]
    answers = job.request(
        "rescore", LOAD_SECONDS, stage="invariants", replies=replies[::-1], seconds=SECONDS_PER_REPLY, max_concurrent=8
    )
    return {value["id"]: value["reward"] for kind, value in answers if kind == "rescored"}


def _played(job: Job, sample: Sample) -> dict[int, float | None]:
    """Number of a rollout → what it earns; one in which something else is said does not count."""
    wanted = {(unit["task"], unit["policies"][0]): number for number, unit in enumerate(sample)}
    again: dict[int, float | None] = {}
    for policy in dict.fromkeys(policy for _, policy in wanted):
        indices = [task for task, one in wanted if one == policy]
        limits = {"rollouts": 1, "max_concurrent": 1, "seconds": SECONDS_PER_ROLLOUT}
        for kind, value in job.request(
            "evaluate", LOAD_SECONDS, stage="invariants", policies=[policy], indices=indices, predict=False, **limits
        ):
            number = wanted[value["task"], policy] if kind == "rollout" else None
            if number is not None and value["completion"] == sample[number]["completions"][0]:
                again[number] = value["reward"]
    return again


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
