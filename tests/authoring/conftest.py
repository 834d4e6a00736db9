"""A repository to write new environments into."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two environments, one of each generation, whose locks can be copied."""
    root = tmp_path / "repository"
    (root / "environments").mkdir(parents=True)
    for name in ("reverse_text", "number_guess"):
        shutil.copytree(ROOT / "environments" / name, root / "environments" / name)
    owners = 'owners: ["@acme/environments"]'
    text = f"version: 1\nowner: acme\nenvironments:\n  number-guess:\n    {owners}\n  reverse-text:\n    {owners}\n"
    (root / "registry.yaml").write_text(text)
    return root
