"""Play rollouts in a fork, beside what is asked before anybody asks for them."""

from __future__ import annotations

import contextlib
import functools
import resource
import threading
from io import BytesIO
from typing import Any

from ..apart import LATE, Apart
from ..channel import Channel, Request
from ..session import Session
from .evaluate import asked_of, jobs_of, manner_of

FORKS = 2
"""Between how many the rollouts of an environment that answers back are divided: they take longest."""
MOST_KILOBYTES = 600 * 2**10
"""What the worker may hold itself: its limit counts what forks share with it once more for each."""
MOST_WITH_SERVERS = 450 * 2**10
"""The same where there are two forks, and tool servers of each."""


def answer(session: Session, request: Request) -> None:
    """Begin the evaluations that will be asked for, where a fork can play what the worker would."""
    if _can_play_apart(session, request["evaluations"]):
        forks = FORKS if session.adapter.conversational else 1
        with contextlib.suppress(OSError):  # the machine has no room for a fork
            for number in range(forks):
                work = functools.partial(_played, session, request["evaluations"], number, forks)
                session.ahead.append(Apart(work, nice=LATE))


def _can_play_apart(session: Session, evaluations: list[Request]) -> bool:
    """A fork has no threads but the one that forked it, not always tool servers of its own, and must have room."""
    if session.adapter.conversational and any(one["max_concurrent"] == 1 for one in evaluations):
        return False  # nothing of it may happen beside anything else
    threads = [one for one in threading.enumerate() if one is not threading.main_thread()]
    needed = [one for one in threads if not type(one).__module__.startswith("tqdm")]  # whose bars are not seen
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    room = MOST_WITH_SERVERS if session.adapter.conversational else MOST_KILOBYTES
    return session.adapter.serves_apart and not needed and held < room


def _played(session: Session, evaluations: list[Request], number: int, forks: int) -> dict[str, Any]:
    """In the fork: its part of the rollouts of all of them, and who tried to reach the network meanwhile."""
    session.channel = Channel(BytesIO(), BytesIO())
    session.adapter.forget_served()
    rows: list[dict[str, Any]] = []
    for one in evaluations:
        session.enter(one["stage"])
        asked = asked_of(session, one)
        mine = set(list(dict.fromkeys(index for _, index, _ in asked))[number::forks])  # a task's group stays together
        jobs, manner = jobs_of([each for each in asked if each[1] in mine]), manner_of(one)
        rows += session.rollouts(jobs, one["max_concurrent"], one["seconds"], manner=manner) if jobs else ()
    attempts = list(session.guard.attempts)
    session.close()
    return {"rows": rows, "attempts": attempts}
