"""The two splits of an environment, and the names of evaluation splits in its own settings."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

Split = Literal["train", "eval"]
"""The tasks to train on, and those to evaluate on."""

EVALUATION_SPLITS = ("test", "eval", "evaluation", "validation", "dev")
"""Names of evaluation splits, the usual one first."""


def evaluation_split(names: Collection[object], current: object) -> str | None:
    """The evaluation split among these names that is not the current one; `None` if there is none."""
    return next((name for name in EVALUATION_SPLITS if name in names and name != current), None)
