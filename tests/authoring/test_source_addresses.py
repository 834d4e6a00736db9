"""The SOURCE arguments of `envwright adopt`."""

from __future__ import annotations

from pathlib import Path

import pytest
from envwright.authoring.adopting.fetching import (
    AnySource,
    FolderSource,
    GitSource,
    HubSource,
    SourceUnreadable,
    source_of,
)

ADDRESS = "https://example.org/acme/games"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (ADDRESS, GitSource(ADDRESS)),
        (f"{ADDRESS}@v1.2#environments/wordle", GitSource(ADDRESS, "v1.2", "environments/wordle")),
        (f"{ADDRESS}@feature/x#/environments/wordle/", GitSource(ADDRESS, "feature/x", "environments/wordle")),
        (f"git+{ADDRESS}@v1#subdirectory=a/b&egg=x", GitSource(ADDRESS, "v1", "a/b")),
        (f"{ADDRESS}/tree/main/environments/wordle", GitSource(ADDRESS, "main", "environments/wordle")),
        (f"{ADDRESS}/-/tree/main/environments/wordle", GitSource(ADDRESS, "main", "environments/wordle")),
        (f"{ADDRESS}/tree/main", GitSource(ADDRESS, "main")),
        ("ssh://git@example.org/acme/games@v1#a", GitSource("ssh://git@example.org/acme/games", "v1", "a")),
        ("git@example.org:acme/games.git@v1#a", GitSource("git@example.org:acme/games.git", "v1", "a")),
        ("git@example.org:acme/games.git", GitSource("git@example.org:acme/games.git")),
        ("file:///srv/games.git@v1", GitSource("file:///srv/games.git", "v1")),
        ("acme/wordle", HubSource("acme", "wordle")),
        ("acme/wordle@0.1.8", HubSource("acme", "wordle", "0.1.8")),
    ],
)
def test_source_of_address_is_split_into_its_parts(text: str, source: AnySource, tmp_path: Path):
    assert source_of(text, tmp_path) == source


def test_source_of_existing_folder_comes_before_the_hub(tmp_path: Path):
    (tmp_path / "acme" / "wordle").mkdir(parents=True)
    assert source_of("acme/wordle", tmp_path) == FolderSource((tmp_path / "acme/wordle").resolve())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("wordle", "there is no such folder"),
        ("~no-such-user/wordle", "home directory"),
        ("../a/b/c", "there is no such folder"),
        ("a.toml", "is a file"),
        (f"{ADDRESS}#../secrets", "leaves the repository"),
        ("https://example.org/", "does not name a repository"),
        ("https://[bad/x", "is no address: Invalid IPv6 URL"),
    ],
)
def test_source_of_other_text_is_refused_with_the_reason(text: str, reason: str, tmp_path: Path):
    (tmp_path / "a.toml").touch()
    with pytest.raises(SourceUnreadable, match=reason):
        source_of(text, tmp_path)
