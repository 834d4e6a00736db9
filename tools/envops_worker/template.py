"""The loop of a template: a process that forks others on request and does nothing else.

There are two. The lock template has imported verifiers and nothing of any environment. The environment template has
loaded one environment and has scored nothing. Between them stands the base of each environment: a fork of the lock
template with its own supervisor, variables, and folder. docs/architecture.md has the picture.

A request is one datagram: JSON settings, and the descriptors that the settings name. The template writes the
process's id to the descriptor `report`, and its exit code when it has ended; it ends the process, with its process
group, when the other end of the pipe `lifeline` is closed.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import stat
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from envops_worker.supervisor import adopt_strays, die_with_parent, woken_by_children

MOST_BYTES = 1 << 17
"""Of the settings of one request; a module to run comes with all of its variables."""
MOST_DESCRIPTORS = 8
STREAMS = ("stdin", "stdout", "stderr")


@dataclass(frozen=True)
class ForkRequest:
    """What a process is forked for."""

    settings: dict[str, Any]
    descriptors: dict[str, int]
    """By the names that the settings gave them."""
    parent: int
    """The id of the process that forked it."""

    def take_place(self) -> None:
        """Be what a new process would be: a session and standard streams of its own, and dependent on its parent."""
        die_with_parent(self.parent)
        os.setsid()
        for target, name in enumerate(STREAMS):
            os.dup2(self.descriptors[name], target)
            os.close(self.descriptors[name])


@dataclass(frozen=True)
class _Child:
    report: int
    lifeline: int
    """-1 where a supervisor of its own watches that."""

    def close(self) -> None:
        _close(one for one in (self.report, self.lifeline) if one >= 0)


class Template:
    """Forks on request until the host is gone."""

    def __init__(self, control: socket.socket, *others: socket.socket, adopts: bool = False) -> None:
        """Serve requests that come over any of the sockets; the process ends when `control` is closed.

        With `adopts`, it ends what its forks leave behind: supervisors leave something where they are killed.
        """
        if adopts:
            adopt_strays()
        self._adopts = adopts
        self._control = control
        self._sockets = {one.fileno(): one for one in (control, *others)}
        self._children: dict[int, _Child] = {}

    def serve(self) -> ForkRequest:
        """Fork on request; return in each of the forks, and never in the template itself."""
        woken, wake = woken_by_children()
        while True:
            lifelines = {child.lifeline: pid for pid, child in self._children.items() if child.lifeline >= 0}
            ready, _, _ = select.select([*self._sockets, *lifelines, woken], [], [])
            for descriptor in ready:
                if descriptor == woken:
                    with contextlib.suppress(BlockingIOError):
                        os.read(woken, 4096)
                elif descriptor in lifelines:
                    _end_group(lifelines[descriptor])
                elif descriptor in self._sockets and (request := self._forked(self._sockets[descriptor])):
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for inherited in (woken, wake):
                        os.close(inherited)
                    return request
            self._reap()

    def _forked(self, control: socket.socket) -> ForkRequest | None:
        """The request, in a fork that is to fulfil it; `None` in the template."""
        try:
            content, descriptors, _, _ = socket.recv_fds(control, MOST_BYTES, MOST_DESCRIPTORS)
        except OSError:
            content, descriptors = b"", []
        if not content and control is self._control:
            self._leave()
        try:
            settings = json.loads(content)
            named = dict(zip(settings.pop("descriptors"), descriptors, strict=True))
            child = _Child(named.pop("report"), named.pop("lifeline", -1))
        except (ValueError, LookupError, TypeError, AttributeError):  # the author's code holds one of the sockets
            _close(descriptors)
            return None
        template = os.getpid()
        try:
            process = os.fork()
        except OSError:  # no room for another process: the host sees its end of `report` close
            _close(descriptors)
            return None
        if process == 0:
            child.close()
            self._forget()
            return ForkRequest(settings, named, template)
        self._children[process] = child
        _say(child.report, process)
        _close(named.values())
        return None

    def _reap(self) -> None:
        """Write down who has ended. A group is ended before its leader's number is given away."""
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                child = self._children.pop(ended.si_pid, None)
                if child is not None and child.lifeline >= 0:
                    _end_group(ended.si_pid)
                _, status = os.waitpid(ended.si_pid, 0)
                if child is not None:
                    _say(child.report, os.waitstatus_to_exitcode(status))
                    child.close()
                if self._adopts:
                    self._end_adopted()

    def _end_adopted(self) -> None:
        """End children that it did not fork; the end of each of them hands on what it left behind itself."""
        with contextlib.suppress(OSError):
            for process in map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()):
                if process not in self._children:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(process, signal.SIGKILL)

    def _forget(self) -> None:
        """Close, in a fork, what belongs to the template and to its other forks."""
        for control in self._sockets.values():
            control.close()
        for child in self._children.values():
            child.close()

    def _leave(self) -> NoReturn:
        for process, child in self._children.items():
            if child.lifeline >= 0:
                _end_group(process)
        os._exit(0)


def _say(report: int, number: int) -> None:
    with contextlib.suppress(OSError):  # the host is gone
        os.write(report, f"{number}\n".encode())


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _end_group(leader: int) -> None:
    """End a fork and its process group; the fork is not reaped yet, so the number is still its own."""
    for end, number in ((os.killpg, leader), (os.kill, leader)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(number, signal.SIGKILL)


def open_descriptors() -> set[int]:
    """The descriptors of this process."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        with contextlib.suppress(OSError):  # the one that listed them
            os.fstat(int(name))
            found.add(int(name))
    return found


def reason_not_to_fork(known: set[int], *, tolerated: Sequence[str] = ()) -> str:
    """What forks of this process could not carry, or nothing: threads, and channels that were not open before.

    Threads whose class is of one of the `tolerated` modules do not count.
    """
    main = threading.main_thread()
    others = [one for one in threading.enumerate() if one is not main]
    threads = [one.name for one in others if not type(one).__module__.startswith(tuple(tolerated) or "\0")]
    if threads:
        return f"threads are left behind: {', '.join(threads)}"
    for descriptor in open_descriptors() - known:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISCHR(mode) and not stat.S_ISDIR(mode):
            return f"a channel is left open: {Path(f'/proc/self/fd/{descriptor}').readlink()}"
    return ""


def settle() -> None:
    """Let later garbage collections pass over what is there: forks would copy the memory by looking at it."""
    gc.freeze()
