"""Play rollouts in a fork, beside what is asked before anybody asks for them."""

from __future__ import annotations

import contextlib
import resource
import threading
from io import BytesIO
from typing import Any

from ..apart import Apart
from ..channel import Channel, Request
from ..session import Session
from .evaluate import asked_of, jobs_of, manner_of

MOST_KILOBYTES = 600 * 2**10
"""What the worker may hold itself: its limit counts what forks share with it once more for each."""


def answer(session: Session, request: Request) -> None:
    """Begin the evaluations that will be asked for, where a fork can play what the worker would."""
    if _can_play_apart(session):
        with contextlib.suppress(OSError):  # the machine has no room for a fork
            session.ahead = Apart(lambda: _played(session, request["evaluations"]))


def _can_play_apart(session: Session) -> bool:
    """A fork has no tool server of its own and no threads but the one that forked it."""
    served = session.settings.generation == "v1" and session.adapter.conversational
    threads = [one for one in threading.enumerate() if one is not threading.main_thread()]
    needed = [one for one in threads if not type(one).__module__.startswith("tqdm")]  # whose bars are not seen
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return not served and not needed and held < MOST_KILOBYTES


def _played(session: Session, evaluations: list[Request]) -> dict[str, Any]:
    """In the fork: the rollouts of all of them, and who tried to reach the network meanwhile."""
    session.channel = Channel(BytesIO(), BytesIO())
    rows: list[dict[str, Any]] = []
    for one in evaluations:
        session.enter(one["stage"])
        jobs, manner = jobs_of(asked_of(session, one)), manner_of(one)
        rows += session.rollouts(jobs, one["max_concurrent"], one["seconds"], manner=manner) if jobs else ()
    attempts = list(session.guard.attempts)
    session.close()
    return {"rows": rows, "attempts": attempts}
