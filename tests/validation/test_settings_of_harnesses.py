"""The user's uv and network settings that reach a harness."""

from __future__ import annotations

import pytest
from envwright.observing.stages.rollouts import settings_without_secrets


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UV_INDEX", "company=https://user:secret@index.example"),
        ("UV_DEFAULT_INDEX", "company=https://token@index.example/simple"),
        ("UV_INDEX_URL", "https://user:secret@index.example"),
        ("HTTPS_PROXY", "user:secret@proxy.example:8080"),
        ("UV_INDEX_COMPANY_PASSWORD", "secret"),
    ],
)
def test_harness_settings_omit_credentials(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert name not in settings_without_secrets()


@pytest.mark.parametrize(
    ("name", "value"),
    [("UV_INDEX", "company=https://index.example/simple"), ("HTTPS_PROXY", "http://proxy.example:8080")],
)
def test_harness_settings_keep_addresses_without_credentials(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert settings_without_secrets()[name] == value
