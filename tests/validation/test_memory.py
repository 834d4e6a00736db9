"""The memory of several processes: shared pages count once."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from envwright.observing.job import MemoryWatch

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
MEBIBYTE = 2**20
FORKS = """
import os, sys

held = bytearray(os.urandom(1 << 20)) * 150
for _ in range(6):
    if os.fork() == 0:
        own = bytearray(os.urandom(1 << 20)) * int(sys.argv[1])
        print(len(own), flush=True)
        sys.stdin.read()
        os._exit(0)
print(len(held), flush=True)
sys.stdin.read()
"""
"""Seven processes that share 150 MiB, six of which hold so many MiB of their own."""
PROGRAMS = """
import os, subprocess, sys

held = os.urandom(60 << 20)
own = "import os, sys; held = os.urandom(40 << 20); print(flush=True); sys.stdin.read()"
programs = [subprocess.Popen([sys.executable, "-c", own]) for _ in range(4)]
print(flush=True)
sys.stdin.read()
"""


@contextmanager
def running(program: str, processes: int, *arguments: str) -> Iterator[int]:
    """A program that starts others, once all of them hold their memory; the id of the shell above them."""
    command = ["sh", "-c", '"$@"; exit', "sh", sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        for _ in range(processes):
            process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.stdin.close()


def test_pages_that_forks_share_count_once() -> None:
    watch = MemoryWatch(400 * MEBIBYTE)
    with running(FORKS, 7, "0") as job:
        watch.add(job)
        assert watch.excess_of(job) == ""
    assert 150 * MEBIBYTE < watch.peak < 400 * MEBIBYTE


def test_pages_of_each_fork_count_together() -> None:
    watch = MemoryWatch(400 * MEBIBYTE)
    with running(FORKS, 7, "60") as job:
        watch.add(job)
        assert "the limit is 400 MiB (gates.memory_mib" in watch.excess_of(job)
    assert watch.peak > 500 * MEBIBYTE


def test_programs_smaller_than_their_template_count_too() -> None:
    with running(PROGRAMS, 5) as template:
        assert "the limit is 150 MiB" in MemoryWatch(150 * MEBIBYTE, template).excess_of(0)
