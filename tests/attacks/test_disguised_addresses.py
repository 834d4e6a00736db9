"""Addresses beyond this machine in disguise, which the network guard must see as the C code reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from envwright.models.gepa import guard

DISGUISED = """
import socket

class Text(str):
    def __str__(self): return "127.0.0.1"
    def lower(self): return "localhost"
    def split(self, *_): return ["127.0.0.1"]
    def __eq__(self, other): return True
    def __hash__(self): return hash("localhost")

class Bytes(bytes):
    def decode(self, *_): return "localhost"

class Pair(tuple):
    def __getitem__(self, _): return "127.0.0.1"
    def __iter__(self): return iter(("127.0.0.1", 80))

class OfPaths(socket.socket):
    family = property(lambda self: socket.AF_UNIX)

def connect(kind, address):
    with kind(socket.AF_INET, socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        connection.connect(address)

OUTSIDE = "192.0.2.1"
hosts = OUTSIDE, Text(OUTSIDE), OUTSIDE.encode(), Bytes(OUTSIDE.encode()), bytearray(OUTSIDE.encode())
pairs = [(host, 80) for host in hosts] + [Pair((host, 80)) for host in hosts[:2]]
attempts = [lambda kind=kind, pair=pair: connect(kind, pair) for kind in (socket.socket, OfPaths) for pair in pairs]
NAMED = "data.example.org"
for name in (NAMED, Text(NAMED), NAMED.encode(), Bytes(NAMED.encode()), "127.0.0.1%" + NAMED, "localhost%" + NAMED):
    attempts.append(lambda name=name: socket.getaddrinfo(name, 80))
attempts.append(lambda: socket.gethostbyaddr(OUTSIDE))
attempts += [lambda host=host: socket.getnameinfo((host, 80), 0) for host in hosts[:2]]
socket.gethostname = lambda: OUTSIDE
for attempt in attempts:
    try:
        attempt()
    except OSError as error:
        print(type(error).__name__, str(error).split()[5], sep=",")
"""


def test_program_that_disguises_its_addresses_reaches_nothing(tmp_path: Path) -> None:
    guard(tmp_path)
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)}

    done = subprocess.run([sys.executable, "-c", DISGUISED], env=variables, capture_output=True, text=True)

    names = ["data.example.org"] * 4 + ["127.0.0.1%data.example.org", "localhost%data.example.org"]
    addresses = [*["192.0.2.1:80"] * 14, *names, *["192.0.2.1"] * 3]
    assert done.stdout.split() == [f"NetworkBlocked,{address}" for address in addresses], done.stderr
