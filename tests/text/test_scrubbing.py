"""Secrets are removed from texts, and other text stays."""

from __future__ import annotations

import pytest
from envwright.text.scrubbing import HIDDEN, Scrubber

KEY = "pk live/7f+canary=19"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: {KEY}",
        "https://hub/?k=pk%20live%2F7f%2Bcanary%3D19",
        '{"said": "pk live/7f+canary=19"}',
    ],
)
def test_known_key_is_hidden_in_every_form(text: str) -> None:
    clean = Scrubber(KEY).text(text)
    assert HIDDEN in clean
    assert "canary" not in clean


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abcDEF123456.xyz", "abcDEF123456"),
        ("PUT https://up/x?X-Amz-Credential=AKIDCRED&X-Amz-Signature=0a1b2c3d&part=1", "0a1b2c3d"),
        ("PUT https://up/x?X-Amz-Credential=AKIDCRED&X-Amz-Signature=0a1b2c3d&part=1", "AKIDCRED"),
        ("https://user:hunter22@index/simple", "hunter22"),
        ("https://user:who@hunter22@index/simple", "hunter22"),
        ("https://:hunter22@index/simple", "hunter22"),
        ("key pit_0123456789abcdef0123", "0123456789abcdef0123"),
        ("hf_ABCDEFGHIJKLMNOPQRST", "ABCDEFGHIJKLMNOPQRST"),
        ("sk-proj-ABCDEFGHIJKLMNOPQRST", "ABCDEFGHIJKLMNOPQRST"),
        ("github_pat_11ABCDEFG0123456789", "11ABCDEFG0123456789"),
    ],
)
def test_unknown_key_is_hidden_by_its_form(text: str, secret: str) -> None:
    assert secret not in Scrubber().text(text)


@pytest.mark.parametrize(
    "text",
    [
        "acme/reverse-text 0.1.0 sha256:4bf89b9982b350d2cb1e17a36a9823085fc170a101f412f29321e241b5f876a8",
        "05386da553998dcfddb9ce4d5eff175b36bcee31",
        "https://hub/environmentshub/acme/sums/@0.1.0?limit=100&offset=20",
        "the key cannot write here",
        "next: envwright bump sums --minor",
    ],
)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert Scrubber.of_environment({"HOME": "/root", "EMPTY_KEY": "none"}).text(text) == text


def test_secret_variables_are_found_by_name() -> None:
    scrubber = Scrubber.of_environment(
        {"ACME_API_TOKEN": "canary-one", "DB_PASSWORD": "canary-two", "PATH": "/usr/bin"}
    )
    assert scrubber.text("canary-one canary-two /usr/bin") == f"{HIDDEN} {HIDDEN} /usr/bin"


def test_data_is_scrubbed_recursively() -> None:
    data = {"list": ["a canary-one", ("canary-one", 3)], "canary-one": None}
    assert Scrubber("canary-one").value(data) == {"list": [f"a {HIDDEN}", [HIDDEN, 3]], HIDDEN: None}
