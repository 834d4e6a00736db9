"""The budget of an observation: how long each stage may take, and how much of its work fits into that.

The clock runs while a stage of the environment works, and stops while all of them wait for other environments. A stage
gets the remaining time in proportion to its share among the unfinished stages and those that wait for it. Its jobs get
a soft deadline (`Session.is_late` in the worker), which leaves them time to send their results; a job that does not
stop is ended.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from envwright.facts.observed import Pace
from envwright.facts.stages import Stage, share_from, stage_named

STOPPING = 0.2
"""The part of a stage's time that is reserved for the reply that is being scored at its end."""
MOST_STOPPING_SECONDS = 12.0
"""A reply may take 10 s."""
LEAST_SECONDS = 2.0
"""The least seconds of a stage: enough to report that the budget is spent."""
CHEAP_SECONDS = 0.02
"""The seconds below which replies are never left out, because the number of tasks bounds the work."""


class Budget:
    """Wall time of one environment, while one of its stages works."""

    def __init__(self, seconds: float, lanes: int = 2, clock: Callable[[], float] = time.monotonic) -> None:
        """`lanes` is the number of stages that run in parallel."""
        self._seconds = seconds
        self._lanes = lanes
        self._clock = clock
        self._lock = threading.Lock()
        self._working = 0
        self._since = 0.0
        self._spent = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the clock run for the block."""
        with self._lock:
            if not self._working:
                self._since = self._clock()
            self._working += 1
        try:
            yield
        finally:
            with self._lock:
                self._working -= 1
                if not self._working:
                    self._spent += self._clock() - self._since

    def forgive(self, seconds: float) -> None:
        """Do not count some time: the import of verifiers is not the environment's."""
        with self._lock:
            self._spent -= seconds

    @property
    def left(self) -> float:
        """Seconds that are not spent."""
        with self._lock:
            now = self._clock() - self._since if self._working else 0.0
            return max(0.0, self._seconds - self._spent - now)

    def allowance(self, stage: Stage, unfinished: Collection[str]) -> tuple[float, float]:
        """Seconds after which the jobs of a stage that begins should stop, and after which they are ended.

        `unfinished` stages include it.
        """
        all_of_it = sum(stage_named(name).share for name in unfinished) / self._lanes
        whole = max(all_of_it, share_from(stage, unfinished))
        seconds = max(LEAST_SECONDS, self.left * (stage.share / whole if whole else 1.0))
        return seconds - min(MOST_STOPPING_SECONDS, STOPPING * seconds), seconds


@dataclass(frozen=True)
class Deadline:
    """The times of `time.monotonic` at which a stage's jobs should stop and are ended."""

    stop: float
    end: float

    @classmethod
    def after(cls, seconds: float, at_most: float) -> Deadline:
        """The deadline of a stage that begins now."""
        now = time.monotonic()
        return cls(now + seconds, now + at_most)

    @property
    def seconds(self) -> float:
        """Seconds until jobs are to stop."""
        return max(0.0, self.stop - time.monotonic())

    @property
    def seconds_to_end(self) -> float:
        """Seconds until they are ended."""
        return max(0.0, self.end - time.monotonic())


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)
"""The deadline of the stage that this thread runs; it bounds every request to a job."""


@contextmanager
def deadline(of: Deadline) -> Iterator[None]:
    """Bound all requests that this thread makes in the block."""
    token = _current.set(of)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def half_of_the_time() -> Iterator[None]:
    """Let the jobs of the stage that this thread runs stop when half of its time is left."""
    bound = _current.get()
    if bound is None:
        yield
        return
    with deadline(Deadline(time.monotonic() + bound.seconds / 2, bound.end)):
        yield


def current_deadline() -> Deadline | None:
    """The deadline of the stage that this thread runs, if it runs one."""
    return _current.get()


def seconds_left() -> float:
    """Seconds until the jobs of the stage that this thread runs should stop; infinite if it runs none."""
    bound = _current.get()
    return bound.seconds if bound else math.inf


def cost_of(pace: Pace | None) -> float:
    """The cost of a reply, rounded up to a power of √2, so that noise does not change a plan; 0 if cheap."""
    if pace is None or not CHEAP_SECONDS <= pace.seconds < math.inf:
        return 0.0
    return float(CHEAP_SECONDS * 2 ** (math.ceil(2 * math.log2(pace.seconds / CHEAP_SECONDS)) / 2))


def fitting(pace: Pace | None, seconds: float, at_once: int = 1) -> float:
    """The number of replies, or rollouts, that fit into some time; infinite if they are cheap."""
    cost = cost_of(pace)
    if not cost:
        return math.inf
    assert pace is not None
    return seconds / cost * (1 if pace.blocks else at_once)
