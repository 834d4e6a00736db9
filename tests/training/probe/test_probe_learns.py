"""The probe itself."""

from __future__ import annotations

import json

import pytest
from small_repository import ROOT, envwright

pytestmark = pytest.mark.e2e
ENOUGH_SECONDS = "1200"
"""A probe that has learned ends by itself, after some 70 steps. So what is learned does not depend on the machine."""


@pytest.mark.torch
@pytest.mark.parametrize("seed", range(5))
def test_probe_reward_triples_and_control_stays_flat(seed: int) -> None:
    size = ("--seed", str(seed), "--seconds", ENOUGH_SECONDS)
    done = envwright(ROOT, "train", "probe", "reverse-text", "--format", "json", *size)
    data = json.loads(done.stdout)
    assert data["control"] == {"change": 0.0, "gradient": 0.0}
    assert data["after"]["value"] >= 3 * data["before"]["value"], done.stderr
