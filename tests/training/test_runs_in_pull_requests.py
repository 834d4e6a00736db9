"""A run that could not start fails where it is declared: in the pull request."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from envops.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("chosen", [(), ("date-arithmetic",)])
def test_incompatible_run_fails_validation_with_alternatives(chosen: tuple[str, ...], tmp_path: Path) -> None:
    shutil.copytree(ROOT / "environments" / "date_arithmetic", tmp_path / "environments" / "date_arithmetic")
    (tmp_path / "registry.yaml").write_text(
        "version: 1\nowner: acme\nenvironments:\n  date-arithmetic:\nruns:\n  dates:\n    backend: prime\n"
        "    model: Qwen/Qwen3-4B\n    environments: [{id: date-arithmetic}]\n    max_steps: 100\n"
    )
    assert main(["schema", *chosen, "--root", str(tmp_path), "--quiet"]) == 2
    [problem] = json.loads((tmp_path / "reports" / "validate.json").read_text())["problems"]
    assert (problem["file"], problem["line"]) == ("registry.yaml", 9)
    assert "RUN001" in problem["message"]
    assert "trl" in problem["fix"]
    assert "nox -s migrate -- date-arithmetic" in problem["fix"]
