"""The split of an environment that is for evaluation, by its name."""

from __future__ import annotations

from collections.abc import Collection

EVALUATION_SPLITS = ("test", "eval", "evaluation", "validation", "dev")
"""Names of evaluation splits, the usual one first."""


def evaluation_split(names: Collection[object], current: object) -> str | None:
    """The evaluation split among these names that is not the current one; `None` where there is none."""
    return next((name for name in EVALUATION_SPLITS if name in names and name != current), None)
