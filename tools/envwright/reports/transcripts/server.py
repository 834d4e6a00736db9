"""A page of transcripts on loopback, for one person on this machine.

Other users of the machine and pages in the browser can reach the port as well. The address therefore holds a random
token, requests for another host name are refused (DNS rebinding), other sites may not load the files, and no
request can write. Responses are built from names of parts; no path of a request reaches the disk.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from envwright.reports.transcripts.beside import script_of
from envwright.reports.transcripts.page import TranscriptSource, content_of_key, page_of_source

HOST = "127.0.0.1"
IDLE_SECONDS = 30.0
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@contextmanager
def served_transcripts(source: TranscriptSource, title: str, port: int = 0) -> Iterator[str]:
    """The address of the page while the block runs. Raises `OSError` if the port is taken."""
    token = secrets.token_urlsafe(24)
    page = "".join(page_of_source(source, title, "")).encode()

    def answer(name: str) -> tuple[str, bytes] | None:
        if name == "":
            return "text/html; charset=utf-8", page
        content = content_of_key(source, name.removesuffix(".js")) if name.endswith(".js") else None
        if content is None:
            return None
        return "text/javascript; charset=utf-8", script_of(name.removesuffix(".js"), content).encode()

    server = _Server((HOST, port), _handler(token, answer))
    serving = threading.Thread(target=server.serve_forever, name="view", kwargs={"poll_interval": 0.1}, daemon=True)
    serving.start()
    try:
        yield f"http://{HOST}:{server.server_port}/{token}/"
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


def _handler(token: str, answer: Callable[[str], tuple[str, bytes] | None]) -> type[BaseHTTPRequestHandler]:
    class TranscriptHandler(BaseHTTPRequestHandler):
        timeout = IDLE_SECONDS
        server_version = "envwright"
        sys_version = ""

        def do_GET(self) -> None:
            self._respond(with_body=True)

        def do_HEAD(self) -> None:
            self._respond(with_body=False)

        def _respond(self, *, with_body: bool) -> None:
            port = self.connection.getsockname()[1]
            if self.headers.get_all("Host") not in ([f"{HOST}:{port}"], [f"localhost:{port}"]):
                self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"another host\n", with_body)
                return
            given, slash, name = self.path.removeprefix("/").partition("/")
            known = hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
            found = answer(name) if known and slash else None
            if found is None:
                self._send(HTTPStatus.NOT_FOUND, "text/plain", b"not found\n", with_body)
                return
            self._send(HTTPStatus.OK, *found, with_body)

        def _send(self, status: HTTPStatus, kind: str, body: bytes, with_body: bool) -> None:
            self.send_response(status)
            for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing: addresses hold the token."""

    return TranscriptHandler
