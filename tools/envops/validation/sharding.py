"""Dividing environments among machines: equal expected work, and few locks on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

LOCK_SECONDS = 40.0
"""What a lock costs a machine once: its virtual environment, and an import of verifiers."""
SHARD_SECONDS = 240.0
"""Less work than this is not worth a machine of its own."""
MOST_SHARDS = 256
"""What a matrix of GitHub Actions may have."""


@dataclass(frozen=True)
class Load:
    """What one environment asks of a machine."""

    name: str
    seconds: float
    lock: str
    """Environments of equal locks share what a lock costs."""


@dataclass
class Shard:
    """What one machine is given."""

    names: list[str] = field(default_factory=list)
    seconds: float = 0.0
    locks: set[str] = field(default_factory=set)

    def with_one_more(self, load: Load) -> float:
        """Seconds of this shard if it had this environment too."""
        return self.seconds + load.seconds + (0.0 if load.lock in self.locks else LOCK_SECONDS)

    def add(self, load: Load) -> None:
        """Give it an environment."""
        self.seconds = self.with_one_more(load)
        self.names.append(load.name)
        self.locks.add(load.lock)


def divided(loads: Sequence[Load], count: int) -> list[Shard]:
    """So many shards, in which every environment stands exactly once; some are empty where there are too many.

    The longest goes first: to a shard that has its lock already and stays within an equal part of
    the work, or else to where the least is to do afterwards. The same loads give the same shards.
    """
    shards = [Shard() for _ in range(count)]
    equal_part = _seconds_of(loads) / max(1, count)
    for load in sorted(loads, key=lambda load: (-load.seconds, load.name)):
        related = [shard for shard in shards if load.lock in shard.locks and shard.with_one_more(load) <= equal_part]
        min(related or shards, key=lambda shard: shard.with_one_more(load)).add(load)
    for shard in shards:
        shard.names.sort()
    return shards


def worthwhile_count(loads: Sequence[Load], most: int = MOST_SHARDS) -> int:
    """How many machines these environments are worth; none for none."""
    if not loads:
        return 0
    return max(1, min(most, MOST_SHARDS, len(loads), ceil(_seconds_of(loads) / SHARD_SECONDS)))


def _seconds_of(loads: Sequence[Load]) -> float:
    """What they would take one machine."""
    return sum(load.seconds for load in loads) + LOCK_SECONDS * len({load.lock for load in loads})
