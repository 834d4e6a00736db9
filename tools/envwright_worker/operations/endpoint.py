"""Serves the policies until the host ends the worker."""

from __future__ import annotations

import threading

from envwright_worker.adapters.adapter import TaskView
from envwright_worker.channel import JobRequest
from envwright_worker.endpoint.faults import FaultPlan
from envwright_worker.policies.scripted import ScriptedPolicies
from envwright_worker.session import Session


def answer(session: Session, request: JobRequest) -> None:
    """Send the address of the endpoint, and wait."""
    tasks: list[TaskView] = []
    for split in ("train", "eval"):
        tasks += session.adapter.tasks(split, request["tasks"])
    endpoint = session.endpoint_class()(session.policies, FaultPlan.parse(request["faults"]), request["port"])
    endpoint.speak_about(tasks)
    served = {"url": endpoint.base_url, "policies": list(ScriptedPolicies.names), "tasks": len(tasks)}
    session.channel.item("endpoint", served)
    threading.Event().wait()
