"""An emulator of its own for each test, and a speaker that knows the order of a push."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from envops.emulator.running import Running, emulator
from speaking import Speaker


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Running]:
    with emulator(tmp_path / "hub", teams=["acme"]) as running:
        yield running


@pytest.fixture
def speaker(hub: Running) -> Speaker:
    return Speaker(hub.url, hub.key)
