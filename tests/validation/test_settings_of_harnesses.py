"""What harnesses get of the user: settings of uv and the network, and a folder that is swept."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from envwright.observing.stages.rollouts import seat_harness, settings_without_secrets
from envwright.system.workspace import Workspace


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("UV_INDEX", "company=https://user:secret@index.example", False),
        ("UV_DEFAULT_INDEX", "company=https://token@index.example/simple", False),
        ("UV_INDEX_URL", "https://user:secret@index.example", False),
        ("HTTPS_PROXY", "user:secret@proxy.example:8080", False),
        ("UV_INDEX_COMPANY_PASSWORD", "secret", False),
        ("UV_INDEX", "company=https://index.example/simple", True),
        ("HTTPS_PROXY", "http://proxy.example:8080", True),
    ],
)
def test_harness_settings_are_addresses_without_credentials(
    name: str, value: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert settings_without_secrets().get(name) == (value if kept else None)


def test_environments_of_earlier_harnesses_are_removed_and_nothing_behind_a_link(tmp_path: Path) -> None:
    workspace, users = Workspace(tmp_path), tmp_path / "documents"
    made = workspace.harnesses / "environments-v2"
    for folder in (made / "old", made / "new", users / "old"):
        folder.mkdir(parents=True)
    (workspace.harnesses / "environments-planted").symlink_to(users)
    (made / "planted").symlink_to(users)
    for folder in (made / "old", users / "old", users):
        os.utime(folder, (0, 0))
    job: Any = SimpleNamespace(request=lambda *_, **__: ())
    seat_harness(job, "a", workspace, allow_network=False)
    assert sorted(path.name for path in made.iterdir()) == ["new", "planted"]
    assert (users / "old").is_dir()
