"""An exception that an environment of several agents raises on a reply is a warning; any other missing reward fails the
gate."""

from __future__ import annotations

import pytest
from cases_of_rewards import refused_by_raise
from envwright.rules.engine import findings


@pytest.mark.parametrize(
    ("subject", "severity"),
    [
        (refused_by_raise(), "warning"),
        (refused_by_raise(agents=()), "error"),
        (refused_by_raise(file="/usr/lib/python3/json/decoder.py"), "error"),
    ],
    ids=["its own raise", "one agent", "a library's raise"],
)
def test_missing_reward_of_a_refused_reply_is_an_error_unless_intended(subject, severity: str) -> None:
    [found] = [each for each in findings(subject) if each.rule == "RWD032"]
    assert found.severity == severity
