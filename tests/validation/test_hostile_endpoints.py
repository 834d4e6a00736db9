"""A hostile endpoint costs bounded time and money, gets no key but its own, and breaks nothing."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from envwright.declarations.endpoints import Endpoint
from envwright.models import relay as relays
from envwright.models.relay import EndpointRefuses, Relay
from fake_provider import KEY, MODEL
from test_model_relay import ask

Speak = Callable[[socket.socket, threading.Event], None]
SOUND = {"choices": [{"message": {"role": "assistant", "content": "a"}}], "usage": {"prompt_tokens": 1}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "MODEL_ENDPOINT", replace(relays.MODEL_ENDPOINT, first_seconds=0.01))
    monkeypatch.setattr(relays, "LONGEST_ANSWER", 2**20)


@contextmanager
def server(speak: Speak) -> Iterator[tuple[str, list[bytes]]]:
    """Sends raw bytes on every connection, and records the first ones that it receives."""
    heard: list[bytes] = []
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            heard.append(connection.recv(65_536))
            speak(connection, over)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", heard
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed(speak: Speak) -> Iterator[tuple[Relay, list[bytes]]]:
    with server(speak) as (url, heard):
        endpoint = Endpoint("fake", MODEL, url, "FAKE_KEY", 1.0, 10.0, concurrency=2, max_tokens=100, timeout_s=0.5)
        with Relay(endpoint, KEY, 1.0) as relay:
            yield relay, heard


def says(body: bytes, *headers: str) -> Speak:
    head = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers, "", ""]).encode()

    def speak(connection: socket.socket, _over: threading.Event) -> None:
        connection.sendall(head + body)

    return speak


def one_byte_after_the_other(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while not over.wait(0.05):
        connection.sendall(b" ")


def without_end(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not over.is_set():
        connection.sendall(b"10000\r\n" + b" " * 65_536 + b"\r\n")


DEEP = json.dumps(SOUND)[:-1] + ', "x": ' + "[" * 900 + "]" * 900 + "}"
BOMB = gzip.compress(b" " * 2**26)
WORTHLESS: dict[str, Speak] = {
    "one byte after the other": one_byte_after_the_other,
    "without end": without_end,
    "headers without end": says(b"{}", *(f"X-{number}: {'x' * 8_000}" for number in range(50))),
    "invalid UTF-8": says(json.dumps(SOUND).encode().replace(b'"a"', b'"\xff\xfe"')),
    "deeper than anything": says(("[" * 100_000).encode()),
    "deep": says(DEEP.encode()),
    "a bomb": says(BOMB, "Content-Encoding: gzip"),
    "no HTTP": lambda connection, _: connection.sendall(b"\x16\x03\x01\x00\xee\x01\x00\x00\xea"),
}


@pytest.mark.parametrize("speak", WORTHLESS.values(), ids=list(WORTHLESS))
def test_endless_answer_ends_and_is_charged_at_its_maximum(speak: Speak) -> None:
    with relayed(speak) as (relay, heard):
        status, answer = ask(relay)
        spending = relay.spending
    assert (status, answer["error"]["code"]) == (502, "endpoint_unavailable")
    assert len(heard) == relays.MODEL_ENDPOINT.attempts
    assert spending.answered == 0
    assert 0 <= spending.cost < 1.0
    assert KEY not in json.dumps(answer)


def test_endpoint_that_takes_no_connection_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relays, "CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as waiting:
        for _ in range(3):  # the queue is full, and the kernel answers no further one
            other = waiting.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(listener.getsockname())
        endpoint = Endpoint("fake", MODEL, f"http://127.0.0.1:{listener.getsockname()[1]}/v1", "FAKE_KEY", 1.0, 10.0)
        with Relay(endpoint, KEY, 1.0) as relay:
            status, answer = ask(relay)
            assert (relay.spending.cost, relay.spending.unmeasured) == (0.0, 0)
    assert (status, "cannot be reached" in answer["error"]["message"]) == (502, True)


@pytest.mark.parametrize("claimed", [10**400, -5, True, 1.5, "many", None, ...])
def test_implausible_token_count_is_charged_at_its_maximum(claimed: Any) -> None:
    usage = None if claimed is ... else {"prompt_tokens": claimed, "completion_tokens": 5}
    body = json.dumps(SOUND | {"usage": usage}).encode()
    with relayed(says(body)) as (relay, _):
        assert ask(relay)[0] == 200
        assert relay.spending.unmeasured == 1
        assert relay.spending.tokens.completion == 100


def test_long_hostile_reply_is_passed_on_unchanged() -> None:
    text = "\x1b]0;owned\x07\x1b[2J\u202e\ud800\x00" + "x" * 200_000
    body = json.dumps(SOUND | {"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()
    with relayed(says(body)) as (relay, _):
        status, answer = ask(relay)
    assert (status, answer["choices"][0]["message"]["content"]) == (200, text)


def test_redirection_is_not_followed_with_the_key() -> None:
    with server(says(json.dumps(SOUND).encode())) as (elsewhere, stranger):

        def redirects(connection: socket.socket, _over: threading.Event) -> None:
            connection.sendall(f"HTTP/1.1 307 Away\r\nLocation: {elsewhere}\r\nContent-Length: 0\r\n\r\n".encode())

        with relayed(redirects) as (relay, heard):
            with pytest.raises(EndpointRefuses, match="a redirection: configure the final address"):
                relay.check()
            status, _ = ask(relay)
    assert status == 502
    assert heard
    assert stranger == []
