"""Pieces of work done side by side, each after the one that it needs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from envops.system.capacity import usable_cores

# Of all environments of a run together: with twice as many pieces as cores, ten environments took 66 s of processor
# time instead of 53 s, because each job has memory of its own to bring into the caches.
_turns = threading.BoundedSemaphore(usable_cores())


@dataclass(frozen=True)
class Piece:
    """Something to do."""

    name: str
    work: Callable[[], None]
    after: str = ""
    """The piece that must be over before."""


def run_side_by_side(pieces: Iterable[Piece]) -> None:
    """Do all pieces, one for each core at a time; of those that can begin, the first in order begins.

    What one of them raises is raised when all that had begun are over; no other one begins after it.
    """
    waiting = list(pieces)
    running: dict[Future[None], str] = {}
    failure: BaseException | None = None
    at_once = usable_cores()
    with ThreadPoolExecutor(at_once) as pool:
        while running or (waiting and failure is None):
            unfinished = {*running.values(), *(piece.name for piece in waiting)}
            ready = [piece for piece in waiting if piece.after not in unfinished] if failure is None else []
            for piece in ready[: at_once - len(running)]:
                waiting.remove(piece)
                running[pool.submit(_in_turn, piece.work)] = piece.name
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                del running[done]
                if done.exception() is not None and failure is None:
                    failure = done.exception()
    if failure is not None:
        raise failure


def _in_turn(work: Callable[[], None]) -> None:
    with _turns:
        work()
