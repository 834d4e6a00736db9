"""Conversations of one episode that are rewarded together: reference replies also play beside near misses."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from envwright.facts.stages import TASKS_PLAYED
from envwright.observing.observation_request import ObservationRequest
from envwright.packages.read_package import read_package
from sample_packages import REPOSITORY, look_at

if TYPE_CHECKING:
    from envwright.system.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.worker, pytest.mark.usefixtures("shared_templates")]


def test_near_miss_beside_reference_reply_is_reported_once(workspace: Workspace, patch: pytest.MonkeyPatch) -> None:
    package = read_package(REPOSITORY / "environments" / "meeting_time", REPOSITORY).package
    assert package is not None
    facts = look_at(package, workspace, patch, request=ObservationRequest(use_cache=False, evaluate=False)).facts
    assert facts.failures == {}
    result = Counter((score.task, score.policy) for score in facts.scores)
    assert {count for (_, policy), count in result.items() if policy == "oracle"} == {1}
    near = [count for (_, policy), count in result.items() if policy == "near-miss"]
    assert len(near) == TASKS_PLAYED
    assert max(near) == 2, "alone, and beside gold"
