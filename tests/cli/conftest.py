"""Commands that are called in the process of the tests fork their environments from shared templates."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def _templates(shared_templates: None) -> None:
    """The templates are started when a command first needs them."""
