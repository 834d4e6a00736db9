"""The totals of a step's rollouts."""

from __future__ import annotations

import pytest
from envwright_learner.environment import PlayedRollout, tally


@pytest.mark.parametrize(
    ("rewards", "share"), [((1.0, None, 1.0), 1.0), ((1.0, 0.0, None), 0.0), ((None, None, None), 1.0)]
)
def test_group_with_a_failed_rollout_has_the_variance_of_the_others(
    rewards: tuple[float | None, ...], share: float
) -> None:
    assert tally([PlayedRollout(0, reward, None) for reward in rewards]).zero_variance == share
