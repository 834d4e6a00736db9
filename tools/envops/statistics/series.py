"""Metrics of a run under one name each, whatever the trainer calls them, and their trends."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from envops.statistics.summary import mean

if TYPE_CHECKING:
    from envops.facts.training_log import RunMetrics

NAMES: Mapping[str, tuple[str, ...]] = {
    "reward": (
        "reward/all/mean",
        "reward",
        "reward/mean",
        "reward_mean",
        "train/reward",
        "train/reward/mean",
        "rewards/mean",
        "env/all/reward/total",
        "critic/score/mean",
        "critic/rewards/mean",
        "batch/reward/mean",
        "reward/avg_raw_reward",
        "reward/[^/]+/mean",
    ),
    "reward_std": ("reward/all/std", "reward_std", "reward/std", "train/reward_std"),
    "dead_groups": (
        "frac_reward_zero_std",
        "train/frac_reward_zero_std",
        "dead_groups",
        "zero_variance_groups",
        "groups/zero_variance",
        "batch/zero_advantage_fraction",
    ),
    "kl": (
        "mismatch_kl/all/mean",
        "mismatch_kl/mean",
        "kl",
        "train/kl",
        "optim/kl_sample_train_v2",
        "actor/ppo_kl",
        "policy/policy_kl",
    ),
    "entropy": (
        "entropy/all/mean",
        "entropy",
        "entropy/mean",
        "optim/entropy",
        "actor/entropy",
        "policy/policy_entropy",
    ),
    "grad_norm": ("optim/grad_norm", "grad_norm", "train/grad_norm", "actor/grad_norm", "policy/raw_grad_norm"),
    "truncated": (
        "is_truncated/all/mean",
        "is_truncated/mean",
        "completions/clipped_ratio",
        "train/completions/clipped_ratio",
        "response_length/clip_ratio",
        "truncated",
    ),
    "errors": ("errored_rollouts/all", "errored_rollouts/all/mean", "errors", "error_rate", "errored_rollouts"),
    "off_policy": ("off_policy/mean", "off_policy/all/mean", "dispatcher/off_policy/mean", "off_policy"),
    "loss": ("loss/mean", "loss", "train/loss", "actor/pg_loss", "policy/policy_loss"),
    "learning_rate": ("optim/lr", "learning_rate", "train/learning_rate", "actor/lr", "lr"),
    "length": ("seq_len/all/mean", "completions/mean_length", "response_length/mean", "generate/avg_num_tokens"),
    "eval": (
        "eval/all/avg",
        "eval/[^/]+/avg@\\d+",
        "eval/reward",
        "eval_reward",
        "test/env/all/reward/total",
        "val/reward",
    ),
    "step_seconds": ("time/step", "step_time", "timing_s/step", "time/total", "perf/time_per_step"),
}
"""Our name → the trainers' (prime-rl docs/training.md, TRL GRPOTrainer, tinker-cookbook rl/metrics, verl, SkyRL),
the first that is there counts; those with brackets are patterns."""
DEAD_PARTS = (
    ("env/all/by_group/frac_all_good", "env/all/by_group/frac_all_bad"),
    ("batch/solve_all", "batch/solve_none"),
)
"""Pairs of metrics whose sum is the share of groups without variance (tinker-cookbook, rLLM)."""


@dataclass(frozen=True)
class Series:
    """One metric over the steps at which it is known."""

    metric: str
    """The trainer's name for it."""
    points: tuple[tuple[int, float], ...]

    @cached_property
    def values(self) -> list[float]:
        return [value for _, value in self.points]

    def head(self, share: float = 0.2) -> float:
        """The mean of the first part."""
        return mean(self.values[: self._part(share)])

    def tail(self, share: float = 0.2) -> float:
        """The mean of the last part."""
        return mean(self.values[-self._part(share) :])

    def last_steps(self, share: float) -> tuple[int, int]:
        """The first and last step of the last part."""
        return self.points[-self._part(share)][0], self.last_step

    def steps_above(self, bound: float) -> tuple[int, int]:
        """From where on every value is above a bound, to the end; the last step alone where it is not."""
        first = len(self.points) - 1
        while first > 0 and self.points[first - 1][1] > bound:
            first -= 1
        return self.points[first][0], self.last_step

    def steps_below(self, bound: float) -> tuple[int, int]:
        """The same below it."""
        return Series(self.metric, tuple((step, -value) for step, value in self.points)).steps_above(-bound)

    def _part(self, share: float) -> int:
        return max(1, round(len(self.points) * share))

    @cached_property
    def slope(self) -> float:
        """Change per step by Theil and Sen's median of pairwise slopes (H. Theil, 1950; P. Sen, JASA 63, 1968).

        From at most 60 points spread evenly, so that a long run costs no more than a short one.
        """
        chosen = _spread(self.points, 60)
        slopes = [
            (later - earlier) / (after - before)
            for index, (before, earlier) in enumerate(chosen)
            for after, later in chosen[index + 1 :]
            if after != before
        ]
        return median(slopes) if slopes else 0.0

    @cached_property
    def jumps(self) -> float:
        """The median change from one point to the next, without its sign."""
        changes = [abs(later - earlier) for earlier, later in pairwise(self.values)]
        return median(changes) if changes else 0.0

    @property
    def first_step(self) -> int:
        return self.points[0][0]

    @property
    def last_step(self) -> int:
        return self.points[-1][0]


def series_of(metrics: RunMetrics) -> dict[str, Series]:
    """Every metric that is known by some name; one with fewer than two points is none."""
    present = {name for row in metrics.steps.values() for name in row}
    found: dict[str, Series] = {}
    for ours, theirs in NAMES.items():
        chosen = _chosen(theirs, present)
        if chosen:
            series = _series(metrics, chosen)
            if len(series.points) > 1:
                found[ours] = series
    if "dead_groups" not in found:
        for one, other in DEAD_PARTS:
            if one in present and other in present:
                found["dead_groups"] = _summed(metrics, one, other)
    return found


def _chosen(names: Sequence[str], present: set[str]) -> list[str]:
    for name in names:
        if name in present:
            return [name]
        if "[" in name or "\\" in name:
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


def _summed(metrics: RunMetrics, one: str, other: str) -> Series:
    rows = metrics.steps.items()
    return Series(
        f"{one} + {other}", tuple((step, row[one] + row[other]) for step, row in rows if {one, other} <= {*row})
    )


def _spread(points: Sequence[tuple[int, float]], most: int) -> Sequence[tuple[int, float]]:
    if len(points) <= most:
        return points
    return [points[round(index * (len(points) - 1) / (most - 1))] for index in range(most)]
