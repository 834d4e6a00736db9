"""The user's uv and network settings that reach a harness."""

from __future__ import annotations

import pytest
from envwright.observing.stages.rollouts import settings_without_secrets


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
