"""The probe itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.e2e
ENOUGH_SECONDS = "1200"
"""A probe that has learned ends by itself, after some 70 steps. So what is learned does not depend on the machine."""


@pytest.mark.torch
@pytest.mark.parametrize("seed", range(5))
def test_probe_reward_triples_and_control_stays_flat(seed: int) -> None:
    command = [sys.executable, "-m", "envwright", "train", "probe", "reverse-text", "--format", "json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    done = subprocess.run(
        [*command, "--seed", str(seed), "--seconds", ENOUGH_SECONDS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    data = json.loads(done.stdout)
    assert data["control"] == {"change": 0.0, "gradient": 0.0}
    assert data["after"]["value"] >= 3 * data["before"]["value"], done.stderr


def test_probe_without_torch_names_the_session() -> None:
    command = [sys.executable, "-m", "envwright", "train", "probe", "reverse-text"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "nox -s envwright -- train probe reverse-text\n" in done.stderr
