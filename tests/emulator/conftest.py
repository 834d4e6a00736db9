"""An emulator of its own for each test, and a client that knows the order of a push."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from emulator_client import Speaker
from envwright_emulator.server import EmulatedHub, emulator


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[EmulatedHub]:
    with emulator(tmp_path / "hub", teams=["acme"]) as running:
        yield running


@pytest.fixture
def speaker(hub: EmulatedHub) -> Speaker:
    return Speaker(hub.url, hub.key)
