"""How an evaluation is getting on, in one line."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from envops.facts.observed import Rollout


@dataclass
class Pace:
    """Counts rollouts as they come."""

    total: int
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    errors: int = 0
    kept: int = 0
    """Of an earlier run: they say nothing of the speed of this one."""
    _sum: float = 0.0
    _scored: int = 0
    _began: float = field(default=0.0)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def count(self, rollout: Rollout, *, kept: bool = False) -> None:
        """One more rollout is there."""
        self.done += 1
        self.kept += kept
        if rollout.failure is not None or rollout.timed_out:
            self.errors += 1
        elif rollout.reward is not None:
            self._sum += rollout.reward
            self._scored += 1

    def __str__(self) -> str:
        """Done of total, mean, errors, rollouts per second, time left."""
        spent, made = self.clock() - self._began, self.done - self.kept
        parts = [f"{self.done}/{self.total}"]
        if self._scored:
            parts.append(f"mean {self._sum / self._scored:.3f}")
        if self.errors:
            parts.append(f"{self.errors} error{'s' if self.errors > 1 else ''}")
        if made and spent > 0:
            rate = made / spent
            parts.append(f"{rate:.1f}/s")
            if self.done < self.total:
                parts.append(f"{(self.total - self.done) / rate:.0f} s left")
        return ", ".join(parts)
