"""The changes that a diagnosis suggests are ones that the run's trainer can make."""

from __future__ import annotations

from typing import Any

import pytest
from envops.rules.diagnosis import RunLog, most_groups_have_no_variance
from envops.statistics.series import Series
from envops.training.trainers import trainer_named
from run_subjects import SOUND, spec_of


@pytest.mark.parametrize(
    ("backend", "keys"),
    [("prime", {"difficulty_filter"}), ("trl", {"rollouts_per_example", "batch_size"})],
)
def test_diagnosis_zero_variance_groups_suggest_filter(backend: str, keys: set[str]) -> None:
    series = {"zero_variance": Series("dead_groups", tuple((step, 0.9) for step in range(40)))}
    spec = spec_of({**SOUND, "backend": backend})
    (found,) = most_groups_have_no_variance(RunLog(series, spec, trainer_named(backend).limits))
    suggested: Any = found.evidence.details["change"]
    assert set(suggested) == keys
