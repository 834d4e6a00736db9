"""The memory of all processes of one environment."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

LOOK_SECONDS = 0.25


class MemoryWatch:
    """The memory of one environment's processes, checked by any idle job.

    Forks share most of their memory with their parent. Shared memory is measured exactly only if all of it, counted for
    each process, is above the limit, because this takes the kernel milliseconds for each process.
    """

    def __init__(self, limit: int, root: int = 0) -> None:
        """Allow this many bytes; `root` is the id of the supervisor above all processes, if there is one."""
        self._limit = limit
        self.root = root
        self._jobs: set[int] = set()
        self._excess: dict[int, str] = {}
        self._looked = 0.0
        self._looking = threading.Lock()
        self.peak = 0
        """The peak memory in bytes, as far as it was measured."""

    def add(self, job: int) -> None:
        with self._looking:
            self._jobs.add(job)

    def remove(self, job: int) -> None:
        with self._looking:
            self._jobs.discard(job)
            self._excess.pop(job, None)

    def excess_of(self, job: int) -> str:
        """Why this job exceeds the memory limit; empty if it does not."""
        with self._looking:
            now = time.monotonic()
            if now - self._looked >= LOOK_SECONDS:
                self._looked = now
                self._look(job)
            return self._excess.get(job, "")

    def _look(self, looking: int) -> None:
        """Measure all processes. Above the limit, the job with the most memory is at fault, or the calling one if
        strays are."""
        families = self._families()
        common = _resident(next(_children(self.root), 0)) if self.root else 0
        everyone = [process for family in families.values() for process in family]
        resident = [_resident(process) for process in everyone]
        held = common + sum(max(0, each - common) for each in resident)
        if sum(resident) > self._limit:  # they hold that much at most, and a program of its own shares nothing
            held = sum(map(_proportional, everyone))
        self.peak = max(self.peak, held)
        if held > self._limit:
            most = max(families, key=lambda job: sum(map(_proportional, families[job])), default=0)
            message = (
                f"the processes of the environment used {held >> 20} MiB; the limit is {self._limit >> 20} MiB "
                "(gates.memory_mib in registry.yaml)"
            )
            self._excess[most or looking] = message

    def _families(self) -> dict[int, list[int]]:
        """The processes of each job; under 0 those without a job, such as tool servers and leftovers of jobs."""
        families: dict[int, list[int]] = {0: [], **{job: [] for job in self._jobs}}
        waiting = [(self.root, 0)] if self.root else [(job, job) for job in self._jobs]
        while waiting:
            process, owner = waiting.pop()
            for child in _children(process):
                whose = child if child in families else owner
                families[whose].append(child)
                waiting.append((child, whose))
        return families


def _children(process: int) -> Iterator[int]:
    """The children of all its threads; none if it has ended, or the kernel keeps no lists of them."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208
            with suppress(OSError), open(f"/proc/{process}/task/{thread}/children", "rb") as listed:  # noqa: PTH123
                yield from map(int, listed.read().split())


def _resident(process: int) -> int:
    """Resident bytes of a process, 0 if it has ended."""
    with suppress(OSError, IndexError), open(f"/proc/{process}/statm", "rb") as pages:  # noqa: PTH123
        return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _proportional(process: int) -> int:
    """Resident bytes of a process, each page divided by the number of its processes; 0 if it has ended."""
    with suppress(OSError, ValueError), open(f"/proc/{process}/smaps_rollup", "rb") as lines:  # noqa: PTH123
        for line in lines:
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(process)
