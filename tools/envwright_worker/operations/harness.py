"""Set up a harness of v1 before any rollout needs it."""

from __future__ import annotations

from envwright_worker.channel import JobRequest
from envwright_worker.failures import HarnessUnusable, OutOfTime
from envwright_worker.session import Session


def answer(session: Session, request: JobRequest) -> None:
    """Raises `HarnessUnusable`, which is neither the environment's fault nor the model's."""
    name = request["seat"]["id"]
    if session.settings.generation != "v1":
        raise HarnessUnusable(f"the harness {name} requires a v1 environment; this one is v0")
    from envwright_worker.adapters.harness_support import AgentSlot
    from envwright_worker.adapters.v1 import AdapterV1

    assert isinstance(session.adapter, AdapterV1)
    try:
        session.run(session.adapter.harnesses.make_ready(AgentSlot(**request["seat"])), request["seconds"])
    except OutOfTime:
        raise HarnessUnusable(f"the harness {name} was not ready within {request['seconds']:g} s") from None
