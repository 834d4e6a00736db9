"""The addresses of this machine; the handling of others is tested with real workers."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from envwright.models.gepa import guard
from envwright_worker import confinement

HERE = ("127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "localhost", "LocalHost", "", "0.0.0.0", "::", "::1%lo")
OTHERS = (
    *("10.0.0.1", "192.168.1.1", "169.254.169.254", "8.8.8.8", "fe80::1", "::ffff:8.8.8.8", "localhost.example.org"),
    *("127.0.0.1.example.org", "huggingface.co", "255.255.255.255"),
)


@pytest.mark.parametrize("host", [*HERE, socket.gethostname(), *OTHERS])
def test_address_is_local_where_it_is_of_this_machine(host: str):
    assert confinement._is_local(host) == (host not in OTHERS)


@pytest.mark.parametrize("host", [None, "localhost", "8.8.8.8", "2001:db8::1"])
def test_lookup_of_local_name_or_address_is_not_reported(host: object):
    assert confinement._address_of_lookup((host,)) is None


@pytest.mark.parametrize(
    "starts", ["", "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', code]))"]
)
def test_command_and_its_children_are_guarded(tmp_path: Path, starts: str):
    guard(tmp_path)
    reaching = "import socket; socket.create_connection(('192.0.2.1', 80), 20)"
    code = f"code = {reaching!r}; {starts}" if starts else reaching
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "NetworkBlocked: the gates run offline, and 192.0.2.1:80 is not on this machine" in done.stderr
