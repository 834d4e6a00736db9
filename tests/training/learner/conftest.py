"""A tiny model as a folder, which torch and transformers write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    subprocess.run([sys.executable, HERE / "tiny_model.py", folder], check=True, capture_output=True)
    return folder
