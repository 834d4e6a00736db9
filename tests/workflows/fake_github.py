"""A GitHub on loopback: the part of its API that jobs of these workflows use."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from envwright.github.api import GitHub
from envwright.github.pull_requests import AUTHOR

COMMIT = "c" * 40
EVENT = {
    "workflow_run": {
        "id": 1,
        "html_url": "https://github.example/acme/envs/actions/runs/1",
        "head_sha": COMMIT,
        "head_branch": "more&state=closed",
        "head_repository": {"owner": {"login": "stranger"}, "full_name": "stranger/envs"},
    }
}
"""Of the run of `validate` that `comment` follows."""


class FakeGitHub:
    """Comments, statuses and pull requests; loses the answers of writes on demand."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = []
        self.statuses: list[dict[str, Any]] = []
        self.environments: dict[str, Any] = {}
        self.hidden = ""
        """A part of addresses that the token may not read."""
        self.pulls = [{"number": 7, "state": "open", "head": {"sha": COMMIT}}]
        self.asked: list[str] = []
        self.lost = 0
        self.refusals: list[dict[str, str]] = []
        """Headers of the next answers, which are all 403."""
        self.is_cut_short = False
        """Whether connections end before the whole answer was sent."""

    def answer(self, method: str, path: str, body: Any) -> Any:
        self.asked.append(f"{method} {path}")
        path = path.removeprefix("/repos/acme/envs/")
        route, _, query = path.partition("?")
        if method == "GET" and route == "pulls":
            return self.pulls if "head=stranger%3Amore%26state%3Dclosed" in query else []
        if method == "GET" and route == "pulls/7":
            return self.pulls[0]
        if method == "GET" and route == "issues/7/comments":
            return self.comments if "page=1" in query.split("&") else []
        if method == "GET" and route.startswith("environments/"):
            return self.environments[route.removeprefix("environments/")]
        if method == "GET" and route.endswith("/statuses"):
            return self.statuses
        if method == "POST" and route == "issues/7/comments":
            self.comments.append({"id": len(self.comments) + 1, "user": {"login": AUTHOR}, **body})
            return self.comments[-1]
        if method == "PATCH" and route.startswith("issues/comments/"):
            self.comments[int(route.rpartition("/")[2]) - 1] |= body
            return {}
        if method == "POST" and route.startswith("statuses/"):
            self.statuses.append(body)
            return body
        raise LookupError(path)


@contextmanager
def serving(fake: FakeGitHub) -> Iterator[GitHub]:
    """The client of a fake; what the fake does not know is HTTP 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            if fake.refusals:
                fake.asked.append(f"{self.command} refused")
                self.answer(403, b"{}", fake.refusals.pop(0))
                return
            if fake.hidden and fake.hidden in self.path:
                self.answer(403, b"{}", {})
                return
            lost = self.command != "GET" and fake.lost > 0
            fake.lost -= lost
            try:
                answer = json.dumps(fake.answer(self.command, self.path, body)).encode()
            except LookupError:
                self.answer(404, b"{}", {})
                return
            self.answer(502 if lost else 200, answer, {"Content-Length": str(len(answer) + fake.is_cut_short)})

        def answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PATCH = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield GitHub("acme/envs", "canary-token-5512", f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    server.server_close()
