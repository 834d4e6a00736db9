"""A redirect to another host does not get the token of the workflow."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from envwright.github.api import GitHub

CANARY = "canary-of-a-github-token"


class Answering(ThreadingHTTPServer):
    """Answers with JSON, or leads elsewhere; keeps the Authorization headers that it got."""

    target = ""

    def __init__(self) -> None:
        self.seen: list[str | None] = []
        super().__init__(("127.0.0.1", 0), Answer)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        self.server.seen.append(self.headers.get("Authorization"))
        leads_away = self.server.target and not self.path.startswith("/moved")
        self.send_response(302 if leads_away else 200)
        if leads_away:
            self.send_header("Location", f"{self.server.target}/moved")
        self.end_headers()
        self.wfile.write(b"" if leads_away else b"{}")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[Answering]:
    server = Answering()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def test_redirected_token_to_another_host_is_left_out() -> None:
    with serving() as github, serving() as stranger:
        github.target = stranger.address
        assert GitHub("acme/envs", CANARY, github.address).get("pulls/1") == {}
        assert github.seen == [f"Bearer {CANARY}"]
        assert stranger.seen == [None]


def test_redirected_token_on_the_same_host_is_kept() -> None:
    with serving() as github:
        github.target = github.address
        assert GitHub("acme/envs", CANARY, github.address).get("pulls/1") == {}
        assert github.seen == [f"Bearer {CANARY}"] * 2
