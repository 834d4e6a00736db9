"""What the rules of diagnoses look at: a run that is under way or over, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from envops.rules.engine import Found, Gate
from envops.rules.evidence import Evidence
from envops.rules.runs.trainers import NO_FILTER

if TYPE_CHECKING:
    from envops.repository.run import RunSpec
    from envops.statistics.series import Series

LEAST_RATE = 1e-7
"""No change is suggested below it."""
LEAST_STEPS = 20
"""Fewer points of the reward say nothing about a trend."""


@dataclass(frozen=True)
class Diagnosed:
    """One run as the rules of diagnoses see it. Rewards are as the trainer logged them."""

    gates: ClassVar[tuple[Gate, ...]] = ("diagnosis",)

    series: Mapping[str, Series] = field(default_factory=dict)
    spec: RunSpec | None = None
    """`None` where the registry does not know the run."""
    status: str = ""
    """What the platform calls its state; empty where there is none."""
    planned_steps: int | None = None
    missing_steps: tuple[int, ...] = ()
    broken: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Metric → steps at which it was no finite number."""
    log: str = ""
    lowest: float = 0.0
    highest: float = 1.0
    """The range of the reward, as the environment declares it."""

    @property
    def ignore(self) -> Mapping[str, str]:
        """Rule id → the reason why it is ignored for this run."""
        return self.spec.ignore if self.spec else {}

    @property
    def reward(self) -> Series | None:
        """The reward, where enough of it is known to judge."""
        found = self.series.get("reward")
        return found if found is not None and len(found.points) >= LEAST_STEPS else None

    def share(self, reward: float) -> float:
        """A reward as a share of its range."""
        width = self.highest - self.lowest
        return (reward - self.lowest) / width if width > 0 else 0.0

    def found(
        self,
        message: str,
        *,
        series: Series | None = None,
        steps: tuple[int, int] | None = None,
        change: Mapping[str, Any] | None = None,
        then: str,
        stop: str,
        **evidence: Any,
    ) -> Found:
        """A finding with what to change in the registry, what to do next, and when to stop.

        `steps` are those at which it shows, first and last; all of the series where nothing is said.
        """
        told: dict[str, Any] = {**evidence, "change": dict(change or {}), "next": then, "stop": stop}
        if series is not None:
            told |= {"metric": series.metric, "steps": [series.first_step, series.last_step]}
        if steps is not None:
            told["steps"] = list(steps)
        return Found(message, Evidence(details=told))

    def scaled(self, key: str, factor: float, least: float = 0.0, most: float = float("inf")) -> dict[str, Any]:
        """A change of one number of the declaration by a factor, within bounds; nothing where it stands there."""
        if self.spec is None:
            return {}
        now: Any = self.spec
        for part in key.split("."):
            now = getattr(now, part, None)
        if not isinstance(now, int | float) or isinstance(now, bool):
            return {}
        wanted = min(most, max(least, now * factor))
        wanted = round(wanted) if isinstance(now, int) else float(f"{wanted:.3g}")
        return {} if wanted == now else {key: wanted}

    def filtered(self) -> dict[str, Any]:
        """The change that draws other groups for dead ones; nothing where the trainer has no such filter."""
        spec = self.spec
        if spec is None or spec.difficulty_filter or spec.backend in NO_FILTER:
            return {}
        return {"difficulty_filter": True}
