"""Commands that are called in the process of the tests fork their environments from shared templates."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from envwright.cli.main import main
from small_repository import Run

for name in ("emulator", "training", "validation"):
    sys.path.append(str(Path(__file__).parents[1] / name))


@pytest.fixture(autouse=True, scope="module")
def _templates(shared_templates: None) -> None:
    """The templates are started when a command first needs them."""


@pytest.fixture
def run(root: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in the repository of the test; its exit code and output, which never has a model's key."""

    def envwright(*arguments: str) -> tuple[int, str]:
        code = main([*arguments, "--root", str(root)])
        out, err = capfd.readouterr()
        assert "sk-canary" not in out + err
        return code, out + err

    return envwright
