"""Rewards as numbers: whether one exists, and its text."""

from __future__ import annotations

import math
from typing import TypeGuard


def is_reward_number(reward: float | None) -> TypeGuard[float]:
    """Whether a reward exists and is finite."""
    return reward is not None and math.isfinite(reward)


def number(value: float | None) -> str:
    """A reward as text, with as many digits as distinguish it from its neighbours."""
    return "none" if value is None else f"{value:.7g}"
