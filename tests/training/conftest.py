"""A Hub of its own for each test that submits, and the real prime CLI."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from envops.emulator.running import Running, emulator
from envops.hub.access import HubAccess
from envops.hub.prime import find_prime
from envops.training.submit import Platform


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Running]:
    with emulator(tmp_path / "hub", teams=["acme"]) as running:
        yield running


@pytest.fixture
def platform(hub: Running, tmp_path: Path) -> Platform:
    prime = find_prime()
    assert prime is not None, "the tests' lock brings the prime CLI"
    access = HubAccess(key=hub.key, url=hub.url, source="the test")
    return Platform(prime, access, tmp_path / "notes", threading.Event(), pauses=(0.2, 0.2), doubt_seconds=60.0)
