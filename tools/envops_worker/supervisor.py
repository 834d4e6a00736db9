"""The parent of the worker: it outlives the worker, cleans up after it, and ends with the host.

The process that the host starts forks at once. The child becomes the worker; the parent stays
behind as its supervisor and imports nothing more. On Linux every process that the environment
starts and abandons, in any session and with any variables, becomes the supervisor's own
child, so none can outlive it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PATIENCE_SECONDS = 5.0
"""Maximum seconds of killing while new processes appear."""


def begin() -> dict[str, Any]:
    """Fork the worker of a new process, and return the role in the variable `ENVOPS_START` in it."""
    start: dict[str, Any] = json.loads(os.environ.pop("ENVOPS_START"))
    if "control" in start:
        os.set_inheritable(start["control"], False)
    fork_worker(start["lifeline"], leaves_others=start["role"] == "template")
    return start


def fork_worker(lifeline: int, *, leaves_others: bool = False) -> None:
    """Return in the worker; in the supervisor, wait for the end of either worker or host and never return.

    With `leaves_others`, the worker's children have supervisors of their own and outlive it.
    """
    os.set_inheritable(lifeline, False)
    adopt_strays(adopts=not leaves_others)
    supervisor = os.getpid()
    worker = os.fork()
    if worker == 0:
        os.close(lifeline)
        os.setsid()
        die_with_parent(supervisor)
        return
    try:
        status = _watch(worker, lifeline)
        end_group(worker)
        if status is None:
            os.kill(worker, signal.SIGKILL)  # it may not lead a group yet
            os.waitpid(worker, 0)  # the host waits for this process, and thereby gets the worker's processor time
        if not leaves_others:
            _end_everyone()
        _end_like(status or 0)
    finally:
        os._exit(70)


def guard(lifeline: int, command: list[str]) -> None:
    """Become a program with a supervisor: `python supervisor.py LIFELINE PROGRAM …`."""
    fork_worker(lifeline)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]} cannot be started: {error}", file=sys.stderr, flush=True)
        os._exit(127)


def adopt_strays(*, adopts: bool) -> None:
    """Let the kernel make this process the parent of its descendants' orphans, or stop that."""
    _prctl(PR_SET_CHILD_SUBREAPER, int(adopts))


def die_with_parent(parent: int) -> None:
    """Let the kernel end this process when the parent with this id ends."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value)


def _watch(worker: int, lifeline: int) -> int | None:
    """Reap until the worker or the host has ended; the worker's wait status, `None` when it was the host."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    woken, _ = woken_by_children()
    while True:
        for process, status in _reaped():
            if process == worker:
                return status
        ready, _, _ = select.select([lifeline, woken], [], [])
        if lifeline in ready and not os.read(lifeline, 1):
            return None
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)


def woken_by_children() -> tuple[int, int]:
    """A pipe that can be read from when a child has ended: its reading and its writing end."""
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return woken, wake


def _reaped() -> list[tuple[int, int]]:
    found = []
    with contextlib.suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(one)
    return found


def end_group(leader: int) -> None:
    """End the process group of a child, with the child if it is already in it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _end_everyone() -> None:
    """End all descendants, and their orphans, until there are none."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and (alive := _descendants(os.getpid())):
        for process in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.005)
        _reaped()


def _descendants(process: int) -> set[int]:
    """Children and their children, as far as /proc shows them."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with (
            contextlib.suppress(OSError, ValueError, IndexError),
            open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as state,  # noqa: PTH123
        ):
            parent = int(state.read().rpartition(")")[2].split()[1])  # the name before it may contain any characters
            children.setdefault(parent, []).append(int(name))
    found: set[int] = set()
    waiting = [process]
    while waiting:
        new = set(children.get(waiting.pop(), ())) - found
        found |= new
        waiting += new
    return found


def _end_like(status: int) -> None:
    """End with the worker's exit status, for the host."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    guard(int(sys.argv[1]), sys.argv[2:])
