"""The changes that a diagnosis suggests are ones that the run's trainer can make."""

from __future__ import annotations

from typing import Any

import pytest
from envops.rules.diagnosis.machinery import groups_are_dead_in_training
from envops.rules.diagnosis.subject import Diagnosed
from envops.statistics.series import Series
from run_subjects import SOUND, spec_of


@pytest.mark.parametrize(
    ("backend", "keys"),
    [("prime", {"difficulty_filter"}), ("trl", {"rollouts_per_example", "batch_size"})],
)
def test_diagnosis_zero_variance_groups_suggest_filter(backend: str, keys: set[str]) -> None:
    dead = {"dead_groups": Series("dead_groups", tuple((step, 0.9) for step in range(40)))}
    (found,) = groups_are_dead_in_training(Diagnosed(dead, spec=spec_of({**SOUND, "backend": backend})))
    suggested: Any = found.evidence.details["change"]
    assert set(suggested) == keys
