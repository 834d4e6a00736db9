"""What all tests have in common."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def users_cache() -> None:
    """Virtual environments of tests are this checkout's own, and outlive the tests."""
    os.environ.setdefault("ENVOPS_CACHE_DIR", str(Path(__file__).parents[1] / ".envops" / "users"))
