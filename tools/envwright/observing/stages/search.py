"""The stage `search`: a bounded search for replies that earn a reward without carrying the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envwright_worker.messages import text_of

from envwright.declarations.registry import EnvironmentEntry
from envwright.facts.observed import Cut
from envwright.facts.stages import TASKS_PLAYED, stage_named
from envwright.observing.budget import cost_of, fitting, seconds_left
from envwright.observing.observation_request import ObservationRequest
from envwright.observing.stage import Observation, StageJob

SEED = 0
EVALUATIONS = 2_000
EVALUATIONS_OF_CONVERSATIONS = 1_000
FEWEST_EVALUATIONS = 200
"""A search that cannot score this many replies is not started."""
SECONDS_PER_REPLY = 2.0
SECONDS_PER_PLAY = 60.0
REQUEST_SECONDS = 120.0


def _request(_: EnvironmentEntry, request: ObservationRequest) -> Mapping[str, Any] | None:
    """A search of a cheap reward ends by the number of evaluations, all others by time."""
    return {"seconds": stage_named("search").cost} if request.wants_whole_gate else None


def _run(observation: Observation, asked: Mapping[str, Any]) -> None:
    conversational = observation.description.conversational  # its replies are scored without a rollout
    is_skipped = observation.package.answer.type == "none"  # by the job, for want of answers
    if not conversational and not is_skipped and fitting(observation.pace, seconds_left()) < FEWEST_EVALUATIONS:
        left_out = Cut("search", "replies", 0, FEWEST_EVALUATIONS, FEWEST_EVALUATIONS * cost_of(observation.pace))
        observation.collected.add("search", "cut", left_out)
        return
    with observation.processes.job() as job:
        wrong = [reply for replies in observation.collected.kept("model replies") for reply in replies.wrong]
        texts = [text_of(reply.completion[-1]) for reply in wrong if reply.completion[-1]["role"] == "assistant"]
        reward = observation.package.reward
        messages = job.request(
            "search",
            REQUEST_SECONDS,
            replies=texts,
            conversations=TASKS_PLAYED,
            formats=reward.format,
            minimum=reward.min or 0.0,
            seed=SEED,
            evaluations=EVALUATIONS_OF_CONVERSATIONS if conversational else EVALUATIONS,
            seconds_per_reply=SECONDS_PER_REPLY,
            seconds_per_play=SECONDS_PER_PLAY,
            **asked,
        )
        observation.collected.take("search", messages)


JOBS = {"search": StageJob(_request, _run)}
