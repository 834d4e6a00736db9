"""The checks of facts about a machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from envwright.builds.machine import HealthCheck, Machine, Reach, examined
from envwright.declarations.problem import Problem

WELL = Machine(
    python="3.12.1",
    uv="0.9.1",
    git="2.40.1",
    is_repository=True,
    has_identity=True,
    free_bytes=50_000_000_000,
    prime="0.18.0",
    prime_key="PRIME_API_KEY",
    hub_token=True,
    writes_bytecode=True,
    environments=3,
)


def only(machine: Machine, level: str) -> HealthCheck:
    (check,) = (check for check in examined(machine) if check.level == level)
    return check


def test_health_of_complete_machine_is_ok():
    assert {check.level for check in examined(WELL)} == {"ok"}


@pytest.mark.parametrize(
    ("lack", "name"),
    [
        ({"python": "3.10.2"}, "Python"),
        ({"python": "3.15.0"}, "Python"),
        ({"uv": None}, "uv"),
        ({"git": None, "is_repository": False}, "git"),
        ({"is_repository": False}, "repository"),
        ({"free_bytes": 1_000_000_000}, "disk"),
        ({"problems": (Problem("registry.yaml", 3, "owner is missing"),)}, "declarations"),
        ({"problems": (Problem("environments/a/requirements.lock", None, "is stale"),)}, "locks"),
    ],
)
def test_health_without_required_tool_fails_with_fix(lack: dict[str, object], name: str):
    check = only(replace(WELL, **lack), "fail")
    assert check.name == name
    assert check.do


@pytest.mark.parametrize(
    ("lack", "name"),
    [
        ({"writes_bytecode": False}, "bytecode"),
        ({"has_identity": False}, "identity"),
        ({"free_bytes": 4_000_000_000}, "disk"),
        ({"prime": None}, "prime"),
        ({"prime": "0.12.0"}, "prime"),
        ({"prime_key": None}, "prime login"),
        ({"hub_token": False}, "HF_TOKEN"),
        ({"unsound": (Path("abc"),)}, "venvs"),
        ({"endpoints": (Reach("mini", "MINI_KEY", False, "HTTP 401"),)}, "endpoint mini"),
        ({"endpoints": (Reach("mini", "MINI_KEY", True, None, "refused"),)}, "endpoint mini"),
    ],
)
def test_health_without_optional_tool_is_advice_with_fix(lack: dict[str, object], name: str):
    check = only(replace(WELL, **lack), "advice")
    assert check.name == name
    assert check.do


def test_health_endpoint_with_key_passes():
    checks = examined(replace(WELL, endpoints=(Reach("mini", "MINI_KEY", True, "HTTP 401"),)))
    assert checks[-1] == HealthCheck("endpoint mini", "ok", "MINI_KEY is set; HTTP 401")


def test_health_repairable_check_has_repair():
    assert only(replace(WELL, unsound=(Path("abc"),)), "advice").repair
