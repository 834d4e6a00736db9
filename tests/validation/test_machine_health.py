"""The checks of facts about a machine."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from envwright.builds.machine import HealthCheck, Machine, Reach, examined, look
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


@pytest.mark.parametrize(
    ("level", "lack", "name"),
    [
        ("fail", {"python": "3.10.2"}, "Python"),
        ("fail", {"python": "3.15.0"}, "Python"),
        ("fail", {"uv": None}, "uv"),
        ("fail", {"git": None, "is_repository": False}, "git"),
        ("fail", {"is_repository": False}, "repository"),
        ("fail", {"free_bytes": 1_000_000_000}, "disk"),
        ("fail", {"problems": (Problem("registry.yaml", 3, "owner is missing"),)}, "declarations"),
        ("fail", {"problems": (Problem("environments/a/requirements.lock", None, "is stale"),)}, "locks"),
        ("advice", {"writes_bytecode": False}, "bytecode"),
        ("advice", {"has_identity": False}, "identity"),
        ("advice", {"free_bytes": 4_000_000_000}, "disk"),
        ("advice", {"prime": None}, "prime"),
        ("advice", {"prime": "0.12.0"}, "prime"),
        ("advice", {"prime_key": None}, "prime login"),
        ("advice", {"hub_token": False}, "HF_TOKEN"),
        ("advice", {"unsound": (Path("abc"),)}, "venvs"),
        ("advice", {"endpoints": (Reach("mini", "MINI_KEY", False, "HTTP 401"),)}, "endpoint mini"),
        ("advice", {"endpoints": (Reach("mini", "MINI_KEY", True, None, "refused"),)}, "endpoint mini"),
    ],
)
def test_health_without_a_tool_fails_or_is_advice_with_fix(level: str, lack: dict[str, object], name: str):
    (check,) = (check for check in examined(replace(WELL, **lack)) if check.level == level)
    assert check.name == name
    assert check.do
    assert bool(check.repair) == (name == "venvs")


def test_health_of_complete_machine_is_ok():
    checks = examined(replace(WELL, endpoints=(Reach("mini", "MINI_KEY", True, "HTTP 401"),)))
    assert {check.level for check in checks} == {"ok"}
    assert checks[-1] == HealthCheck("endpoint mini", "ok", "MINI_KEY is set; HTTP 401")


def test_name_of_a_user_in_another_encoding_is_an_identity(tmp_path: Path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".git/config").open("ab").write(b"[user]\n\temail = ren\xe9@example.org\n")
    assert look(tmp_path, offline=True).has_identity
