"""A Hub on loopback that the real prime CLI calls, and a repository to release."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from envwright.hub.access import HubAccess, Prime, find_prime
from envwright_emulator.server import EmulatedHub, emulator

sys.path.append(str(Path(__file__).parents[1] / "repository"))
sys.path.append(str(Path(__file__).parents[1] / "emulator"))


@pytest.fixture(autouse=True)
def _reads(reads_repeated_at_once: None) -> None:
    """Faults of the Hub pass without waiting for seconds."""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[EmulatedHub]:
    with emulator(tmp_path / "hub", user="ada", teams=["acme"], key="canary-key-0123456789") as running:
        yield running


@pytest.fixture
def signed_in(hub: EmulatedHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EmulatedHub:
    """The Hub that commands find, with its key; nothing of the user's own login."""
    for name, value in {**hub.environment, "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PRIME_TEAM_ID", raising=False)
    return hub


@pytest.fixture
def access(hub: EmulatedHub) -> HubAccess:
    return HubAccess(hub.key, url=hub.url, source="the test")


@pytest.fixture(scope="session")
def prime() -> Prime:
    found = find_prime()
    assert found is not None, "the tests need the prime CLI (tools/requirements-prime.lock)"
    return found
