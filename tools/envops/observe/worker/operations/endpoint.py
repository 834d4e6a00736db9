"""Serve the policies for people, until the host ends the worker."""

from __future__ import annotations

import threading

from ..adapter import TaskView
from ..channel import Request
from ..endpoint_faults import FaultPlan
from ..policies import Policies
from ..session import Session


def answer(session: Session, request: Request) -> None:
    """Say where the endpoint is, and stay."""
    from ..endpoint import Endpoint

    tasks: list[TaskView] = []
    for split in ("train", "eval"):
        tasks += session.adapter.tasks(split, request["tasks"])
    endpoint = Endpoint(session.policies, FaultPlan.parse(request["faults"]), request["port"])
    endpoint.speak_about(tasks)
    served = {"url": endpoint.base_url, "policies": list(Policies.names), "tasks": len(tasks)}
    session.channel.item("endpoint", served)
    threading.Event().wait()
