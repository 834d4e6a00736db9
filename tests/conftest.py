"""What all tests have in common."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def users_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What other checkouts compiled has no say in what tests find, and tests leave nothing to those."""
    os.environ.setdefault("ENVOPS_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "users"))
