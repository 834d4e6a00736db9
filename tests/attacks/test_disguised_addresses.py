"""Addresses beyond this machine in disguise, which the network guard must see as the C code reads them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from envwright.models.gepa import guard
from envwright_worker import confinement


class LocalText(str):
    """Reads like this machine to everything that is written in Python."""

    __slots__ = ()

    def __str__(self) -> str:
        return "127.0.0.1"

    def lower(self) -> str:
        return "localhost"

    def split(self, *_: object) -> list[str]:  # type: ignore[override]
        return ["127.0.0.1"]

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("localhost")


class LocalBytes(bytes):
    def decode(self, *_: object) -> str:  # type: ignore[override]
        return "localhost"


class LocalPair(tuple[str, int]):
    __slots__ = ()

    def __getitem__(self, _: object) -> str:  # type: ignore[override]
        return "127.0.0.1"

    def __iter__(self):  # type: ignore[override]
        return iter(("127.0.0.1", 80))


class PathSocket(socket.socket):
    """Claims to be a socket of this machine."""

    @property
    def family(self) -> socket.AddressFamily:  # type: ignore[override]
        return socket.AF_UNIX


@pytest.mark.parametrize(
    "address",
    [
        (LocalText("203.0.113.9"), 80),
        LocalPair(("203.0.113.9", 80)),
        LocalPair((LocalText("203.0.113.9"), 80)),
        (b"203.0.113.9", 80),
        (LocalBytes(b"203.0.113.9"), 80),
        (bytearray(b"203.0.113.9"), 80),
    ],
)
@pytest.mark.parametrize("kind", [socket.socket, PathSocket])
def test_connection_in_disguise_is_reported(kind: type[socket.socket], address: tuple[str, int]) -> None:
    with kind(socket.AF_INET, socket.SOCK_STREAM) as connection:
        assert confinement._address_of_connect((connection, address)) == "203.0.113.9:80"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("data.example.org", "data.example.org"),
        (b"data.example.org", "data.example.org"),
        (LocalText("data.example.org"), "data.example.org"),
        (LocalBytes(b"data.example.org"), "data.example.org"),
        ("127.0.0.1%data.example.org", "127.0.0.1%data.example.org"),
        ("localhost%data.example.org", "localhost%data.example.org"),
    ],
)
def test_lookup_of_a_name_or_in_disguise_is_reported(host: object, expected: str) -> None:
    assert confinement._address_of_lookup((host,)) == expected


DISGUISED = """
import socket

class Local(str):
    def __str__(self): return "127.0.0.1"
    def lower(self): return "localhost"
    def split(self, *_): return ["127.0.0.1"]

class OfPaths(socket.socket):
    family = property(lambda self: socket.AF_UNIX)

socket.gethostname = lambda: "192.0.2.1"
for kind, host in ((socket.socket, Local("192.0.2.1")), (OfPaths, "192.0.2.1"), (socket.socket, "192.0.2.1")):
    connection = kind(socket.AF_INET, socket.SOCK_STREAM)
    connection.settimeout(5)
    try:
        connection.connect((host, 80))
    except ConnectionError as error:
        print(type(error).__name__)
for look_up in (
    lambda: socket.gethostbyaddr("192.0.2.1"),
    lambda: socket.getnameinfo(("192.0.2.1", 80), 0),
    lambda: socket.getnameinfo((Local("192.0.2.1"), 80), 0),
):
    try:
        look_up()
    except OSError as error:
        print(type(error).__name__)
"""


def test_program_that_disguises_its_addresses_reaches_nothing(tmp_path: Path) -> None:
    guard(tmp_path)
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)}

    done = subprocess.run([sys.executable, "-c", DISGUISED], env=variables, capture_output=True, text=True)

    assert done.stdout.split() == ["NetworkBlocked"] * 6, done.stderr
