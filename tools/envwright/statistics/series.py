"""Metrics of a run under one name each, for every trainer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from envwright.statistics.summary import mean

if TYPE_CHECKING:
    from envwright.facts.training_log import RunMetrics

PLAIN_NAMES: Mapping[str, tuple[str, ...]] = {
    "reward": ("reward", "reward/mean", "reward_mean", "train/reward/mean"),
    "reward_std": ("reward_std", "reward/std"),
    "zero_variance": ("dead_groups", "zero_variance_groups", "groups/zero_variance"),
    "kl": ("kl",),
    "entropy": ("entropy", "entropy/mean"),
    "grad_norm": ("grad_norm",),
    "truncated": ("truncated",),
    "errors": ("errors", "error_rate"),
    "off_policy": ("off_policy",),
    "learning_rate": ("learning_rate", "lr"),
    "length": (),
    "eval": ("eval/reward", "val/reward"),
}
"""Our name → names that are not those of a known trainer."""


@dataclass(frozen=True)
class Series:
    """One metric over the steps at which it is known."""

    metric: str
    """The trainer's name for it."""
    points: tuple[tuple[int, float], ...]

    @cached_property
    def values(self) -> list[float]:
        return [value for _, value in self.points]

    def tail(self, share: float = 0.2) -> float:
        """The mean of the last part."""
        return mean(self.values[-self._part(share) :])

    def last_steps(self, share: float) -> tuple[int, int]:
        """The first and last step of the last part."""
        return self.points[-self._part(share)][0], self.last_step

    def steps_above(self, bound: float) -> tuple[int, int]:
        """The steps from which every value is above a bound, to the end; only the last step if there are none."""
        first = len(self.points) - 1
        while first > 0 and self.points[first - 1][1] > bound:
            first -= 1
        return self.points[first][0], self.last_step

    def _part(self, share: float) -> int:
        return max(1, round(len(self.points) * share))

    @property
    def first_step(self) -> int:
        return self.points[0][0]

    @property
    def last_step(self) -> int:
        return self.points[-1][0]


def series_of(
    metrics: RunMetrics,
    logged: Mapping[str, Sequence[str]] = MappingProxyType({}),
    zero_variance: Sequence[tuple[str, str]] = (),
) -> dict[str, Series]:
    """Every metric that is known by some name and has two points.

    `logged` maps our names to the trainers': the first that exists counts; names with brackets are patterns and come
    last. `zero_variance` are pairs of metrics or patterns whose sum is the share of groups without variance.
    """
    present = {name for row in metrics.steps.values() for name in row}
    found: dict[str, Series] = {}
    for ours, plain in PLAIN_NAMES.items():
        chosen = _chosen(sorted((*logged.get(ours, ()), *plain), key=_is_pattern), present)
        if chosen:
            series = _series(metrics, chosen)
            if len(series.points) > 1:
                found[ours] = series
    if "zero_variance" not in found:
        for one, other in zero_variance:
            both = _chosen([one], present), _chosen([other], present)
            if all(both):
                found["zero_variance"] = _summed(_series(metrics, both[0]), _series(metrics, both[1]))
                break
    return found


def metric_of(metrics: RunMetrics, names: Sequence[str]) -> Series | None:
    """The first of these metrics or patterns that has two points."""
    present = {name for row in metrics.steps.values() for name in row}
    chosen = _chosen(names, present)
    series = _series(metrics, chosen) if chosen else None
    return series if series is not None and len(series.points) > 1 else None


def _is_pattern(name: str) -> bool:
    return "[" in name or "\\" in name


def _chosen(names: Sequence[str], present: set[str]) -> list[str]:
    for name in names:
        if name in present:
            return [name]
        if _is_pattern(name):
            matching = sorted(each for each in present if re.fullmatch(name, each))
            if matching:
                return matching
    return []


def _series(metrics: RunMetrics, names: list[str]) -> Series:
    """One metric, or the mean of those of several environments."""
    points = []
    for step, row in metrics.steps.items():
        values = [row[name] for name in names if name in row]
        if values:
            points.append((step, mean(values)))
    return Series(" + ".join(names), tuple(points))


def _summed(one: Series, other: Series) -> Series:
    """The sum at the steps that both have."""
    added = dict(other.points)
    points = tuple((step, value + added[step]) for step, value in one.points if step in added)
    return Series(f"{one.metric} + {other.metric}", points)
