"""Installing what was published from an index that fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from envwright.builds.wheel import sha256_of
from envwright.declarations.package import Package
from envwright.declarations.registry import EnvironmentEntry
from envwright.release.ledger import LedgerEntry
from envwright.release.loading import Loader
from envwright.release.plan import Desired, ReleaseStep
from envwright.release.publishing import Fetched
from envwright.system.workspace import Workspace
from loopback_server import serving

DESIRED = Desired("sums", "acme", "0.1.0", "c" * 40, "PUBLIC")
PACKAGE = Package("sums", Path("/nowhere/sums"), "sums", "0.1.0", "", (), "", (), (), "v1", None)


@pytest.fixture
def index(request: pytest.FixtureRequest) -> Iterator[str]:
    """An index that gives one answer to everything."""
    with serving(lambda _: (request.param, {}, b"")) as server:
        yield f"{server.url}/simple"


@pytest.mark.parametrize(("index", "result"), [(503, "unknown"), (404, "failed")], indirect=["index"])
def test_load_from_a_failing_index_blames_the_version_only_if_it_is_missing(
    index: str, result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setattr("envwright.release.loading.environment_venv", lambda *_: None)
    wheel = tmp_path / "sums" / "sums-0.1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"tested")
    fetched = Fetched(wheel.name, sha256_of(wheel), index)
    entry = LedgerEntry(ReleaseStep(DESIRED, "create", ""), "published", "", fetched=fetched)
    loader = Loader(Workspace(tmp_path), tmp_path, threading.Event())
    assert entry.with_verified(loader.load(entry, EnvironmentEntry("sums"), PACKAGE)).result == result
