"""Programs that the host runs to their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from envwright.system.subprocesses import Interrupted, ProgramFailed, run_program
from envwright_worker import supervisor
from sample_packages import all_gone

if TYPE_CHECKING:
    from pathlib import Path

    from envwright.facts.observed import Failure


def run(folder: Path, code: str, *marks: str, seconds: float = 30.0, stop: threading.Event | None = None) -> str:
    return run_program(
        [sys.executable, "-c", code, *marks],
        environment=dict(os.environ),
        folder=folder,
        seconds=seconds,
        stop=stop or threading.Event(),
    )


def failure(*arguments: Any, **named: Any) -> Failure:
    with pytest.raises(ProgramFailed) as caught:
        run(*arguments, **named)
    return caught.value.failure


def test_program_runs_in_its_folder_without_input_and_returns_both_streams(tmp_path: Path):
    code = "import os, sys; print(os.getcwd() + sys.stdin.read(), flush=True); print('err', file=sys.stderr)"
    assert run(tmp_path, code).split() == [str(tmp_path), "err"]


def test_nonzero_exit_code_is_a_failure_with_last_output(tmp_path: Path):
    found = failure(tmp_path, "print('start' + 'x' * 10_000 + 'end'); raise SystemExit(3)")
    assert found.kind == "infrastructure"
    assert "exit code 3" in found.message
    assert found.message.endswith("end")
    assert "start" not in found.message


def test_time_limit_ends_program_and_children(tmp_path: Path):
    code = "import subprocess, sys, time; subprocess.Popen([sys.executable, *sys.argv[:0], '-c', 'import time; time.sleep(600)', 'late-child']); time.sleep(600)"  # noqa: E501
    assert failure(tmp_path, code, seconds=1.0).kind == "timeout"
    assert all_gone("late-child")


def test_interrupt_ends_the_program(tmp_path: Path):
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(Interrupted):
        run(tmp_path, "import time; time.sleep(600)", "interrupted-program", stop=stop)
    assert all_gone("interrupted-program")


AT_TERMINAL = (
    "import os, pathlib, sys; from envwright.system.subprocesses import run_at_terminal as run; "
    "run([sys.executable, '-c', sys.argv[1]], environment=os.environ, folder=pathlib.Path(), sandbox=None)"
)


def test_program_at_a_terminal_ends_by_itself_when_interrupted():
    code = "import time\ntry:\n    print('started', flush=True)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n"
    code += "    time.sleep(1)\n"  # later than subprocess.run waits by itself
    code += "    print('cleaned up', flush=True)\n    raise SystemExit(2)"
    command = [sys.executable, "-c", AT_TERMINAL, code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as host:
        assert host.stdout.readline() == "started\n"
        os.killpg(host.pid, signal.SIGINT)  # as a terminal does, to all of its foreground
        assert host.stdout.read() == "cleaned up\n"
        assert host.stderr.read().endswith(".Interrupted\n")


def test_lingering_child_does_not_delay_the_host(tmp_path: Path):
    code = "import os, time\nif os.fork() == 0:\n    time.sleep(600)\nprint('done')"
    assert run(tmp_path, code, "staying-child", seconds=20.0) == "done\n"
    assert all_gone("staying-child")


def test_descendants_are_found_without_a_process_file_system(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(supervisor, "PROCESSES", "/nowhere")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert supervisor.descendants(os.getpid()) >= {child.pid}
        child.communicate(b"\n")
    assert child.pid not in supervisor.descendants(os.getpid())


def test_missing_program_is_a_failure(tmp_path: Path):
    with pytest.raises(ProgramFailed, match="no-such-program cannot be started"):
        run_program(
            ["no-such-program"], environment=dict(os.environ), folder=tmp_path, seconds=30.0, stop=threading.Event()
        )
