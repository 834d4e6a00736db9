"""A redirect to another host does not get the token of the workflow."""

from __future__ import annotations

from envwright.github.api import GitHub
from loopback_server import Answer, serving

CANARY = "canary-of-a-github-token"


def leading_to(url: str, path: str) -> Answer:
    """An answer that leads to a place there, where the next one is empty."""
    return (200, {}, b"{}") if path.startswith("/moved") else (302, {"Location": f"{url}/moved"}, b"")


def test_redirected_token_to_another_host_is_left_out() -> None:
    with (
        serving(lambda path: leading_to("", path)) as stranger,
        serving(lambda path: leading_to(stranger.url, path)) as github,
    ):
        assert GitHub("acme/envs", CANARY, github.url).get("pulls/1") == {}
        assert github.authorizations == [f"Bearer {CANARY}"]
        assert stranger.authorizations == [None]


def test_redirected_token_on_the_same_host_is_kept() -> None:
    with serving(lambda path: leading_to(github.url, path)) as github:
        assert GitHub("acme/envs", CANARY, github.url).get("pulls/1") == {}
        assert github.authorizations == [f"Bearer {CANARY}"] * 2
