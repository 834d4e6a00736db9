"""A tiny model as a folder, for those who have torch and TRL."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture(scope="session")
def trl_python() -> str:
    if "ENVOPS_TRL_PYTHON" not in os.environ:
        pytest.skip("ENVOPS_TRL_PYTHON names no Python with torch, TRL and peft")
    return os.environ["ENVOPS_TRL_PYTHON"]


@pytest.fixture(scope="session")
def tiny_model(trl_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    subprocess.run([trl_python, HERE / "tiny_model.py", folder], check=True, capture_output=True)
    return folder
