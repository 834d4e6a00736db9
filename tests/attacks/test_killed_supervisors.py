"""Programs that kill their supervisor, so that processes stay behind."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest
from envwright.system.subprocesses import ProgramFailed, run_program
from sample_packages import processes_with

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the processes")
LEAVES = """
import os, signal, sys, time

def stay():
    os.setsid()
    time.sleep(600)

for family in (1, 2):
    if os.fork() == 0:
        stay() if family == 1 or os.fork() == 0 else os._exit(0)
time.sleep(0.2)
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(600)
"""


def test_program_that_kills_its_supervisor_leaves_no_process(tmp_path: Path) -> None:
    with pytest.raises(ProgramFailed, match="exit code -9"):
        run_program(
            [sys.executable, "-c", LEAVES, "left-behind"],
            environment=dict(os.environ),
            folder=tmp_path,
            seconds=60.0,
            stop=threading.Event(),
        )

    deadline = time.monotonic() + 5.0
    while processes_with("left-behind") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not processes_with("left-behind")
