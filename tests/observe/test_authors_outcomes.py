"""Outcomes of the author's tests, which are collected long after the tests have begun."""

from __future__ import annotations

import json
import os
import tempfile
import time

import pytest
from envops.observe.worker.author_tests import _lines
from envops.observe.worker.failures import OutOfTime


def test_tests_that_say_more_than_a_pipe_holds_come_to_their_end_unread() -> None:
    with tempfile.TemporaryFile(buffering=0) as said:
        child = os.fork()
        if child == 0:
            for number in range(400):
                os.write(said.fileno(), json.dumps({"test": number, "message": "x" * 1_500}).encode() + b"\n")
            os._exit(0)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        long_ago = time.monotonic() - 600.0
        assert [line["test"] for line in _lines(said.fileno(), long_ago, child)] == list(range(400))
        os.waitpid(child, 0)


def test_tests_that_do_not_end_are_out_of_time_and_what_they_said_counts() -> None:
    with tempfile.TemporaryFile(buffering=0) as said:
        os.write(said.fileno(), b'{"test": "first"}\n{"test": "hal')
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
        lines = _lines(said.fileno(), time.monotonic() - 1.0, child)
        assert next(lines) == {"test": "first"}
        with pytest.raises(OutOfTime):
            next(lines)
        os.kill(child, 9)
        os.waitpid(child, 0)
