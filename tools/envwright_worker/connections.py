"""Makes the connections of confined processes: a filter cannot read their addresses, their supervisor can.

The kernel stops a confined process that connects, and asks here. The address is copied first and the connection made
with the copy, by this process, on the socket of the other one: it cannot be exchanged in between. The supervisor is a
parent of everything that it asks about, because Linux lets no other process read an address.

Beside accelerators, a process that opens a file only for writing asks too. CUDA names its threads in
`/proc/self/task/ID/comm`, and does not start where it cannot (error 304, driver 580 on an H200). Landlock could only
open all of /proc, where root sets the kernel. So such a name is written into nothing.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import stat
import struct
from _thread import start_new_thread
from collections.abc import Sequence
from contextlib import suppress

from envwright_worker.sandbox import opens_a_file

_RECEIVE, _SEND, _IS_VALID, _ADD_DESCRIPTOR = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_NOTIFICATION = struct.Struct("QIIiIQ6Q")
_ANSWER, _CONTINUE = struct.Struct("QqiI"), 1
_DESCRIPTOR, _IS_ANSWER = struct.Struct("QIIII"), 2
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_LONGEST_ADDRESS = 128
_LONGEST_NAME = 64
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10


class Connections:
    """Connects confined processes to this machine, and to sockets in their own folders."""

    def __init__(self, listener: int, folders: Sequence[str]) -> None:
        self.listener = listener
        """The descriptor that can be read from when a process waits for an answer."""
        self._folders = tuple(os.path.realpath(folder) + "/" for folder in folders)

    def answer(self) -> bool:
        """Answer one process; return whether other processes may still ask."""
        waiting = select.poll()
        waiting.register(self.listener, select.POLLIN)
        if not any(events & select.POLLIN for _, events in waiting.poll(0)):
            return False  # all have ended, and to receive would wait without end
        received = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, received)
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.EINTR)  # it ended before
        asked, thread, _, call, _, _, descriptor, address, length, *_ = _NOTIFICATION.unpack(received)
        if opens_a_file(call):
            self._open(asked, thread, address)
            return True
        try:
            copied = self._copied(asked, thread, address, length)
            socket = _descriptor_of(thread, descriptor)
        except OSError as error:
            self._reply(asked, error.errno or errno.EPERM)
            return True
        if fcntl.fcntl(socket, fcntl.F_GETFL) & os.O_NONBLOCK:
            self._connect(asked, socket, copied, thread)
            return True
        try:
            start_new_thread(self._connect, (asked, socket, copied, thread))
        except RuntimeError:  # confined processes may have used up all threads; the supervisor has to end them
            os.close(socket)
            self._reply(asked, errno.EAGAIN)
        return True

    def _copied(self, asked: int, thread: int, address: int, length: int) -> bytes:
        length &= 0xFFFFFFFF
        if not 2 <= length <= _LONGEST_ADDRESS:
            raise OSError(errno.EINVAL, "an address of this length")
        copied = self._memory(asked, thread, address, length)
        if len(copied) != length:
            raise OSError(errno.EFAULT, "an address that cannot be read")
        return copied

    def _memory(self, asked: int, thread: int, address: int, most: int) -> bytes:
        """What a process has at an address, as far as it can be read."""
        memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(self.listener, _IS_VALID, struct.pack("Q", asked))  # its number may belong to another by now
            return os.pread(memory, most, address)
        finally:
            os.close(memory)

    def _open(self, asked: int, thread: int, address: int) -> None:
        """Open nothing in place of a thread's name; the process itself opens every other file, as it is confined."""
        try:
            named = _names_a_thread(self._memory(asked, thread, address, _LONGEST_NAME).partition(b"\0")[0])
        except OSError:
            named = False
        if not named:
            self._reply(asked, 0, _CONTINUE)
            return
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        with suppress(OSError):  # the process has ended
            fcntl.ioctl(self.listener, _ADD_DESCRIPTOR, _DESCRIPTOR.pack(asked, _IS_ANSWER, nothing, 0, os.O_CLOEXEC))
        os.close(nothing)

    def _connect(self, asked: int, socket: int, address: bytes, thread: int) -> None:
        family = struct.unpack_from("=H", address)[0]
        code, local = errno.ENETUNREACH, -1
        try:
            if family == _AF_UNIX:
                local, address = self._local(address, thread)
                code = _connected(socket, address)
            elif is_this_machine(family, address):
                code = _connected(socket, address)
        except OSError as error:
            code = error.errno or errno.EPERM
        finally:
            for descriptor in (socket, local):
                if descriptor >= 0:
                    os.close(descriptor)
        self._reply(asked, code)

    def _local(self, address: bytes, thread: int) -> tuple[int, bytes]:
        """An open socket file in a folder of the process, and the address by which this process reaches it."""
        path = os.fsdecode(address[2:].partition(b"\0")[0])
        if not path:
            raise OSError(errno.EACCES, "a socket without a file")
        place = os.path.join(f"/proc/{thread}/cwd", path)  # noqa: PTH118 - pathlib is slow to import
        opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
        link = f"/proc/self/fd/{opened}"
        if not (os.readlink(link).startswith(self._folders) and stat.S_ISSOCK(os.fstat(opened).st_mode)):  # noqa: PTH115
            os.close(opened)
            raise OSError(errno.EACCES, "a socket outside of its folders")
        return opened, struct.pack("=H", _AF_UNIX) + link.encode() + b"\0"

    def _reply(self, asked: int, code: int, flags: int = 0) -> None:
        with suppress(OSError):  # the process has ended
            fcntl.ioctl(self.listener, _SEND, bytearray(_ANSWER.pack(asked, 0, -code, flags)))


def _names_a_thread(path: bytes) -> bool:
    """Whether a path is that of the name of a thread: `/proc/self/task/ID/comm`."""
    parts = path.split(b"/")
    return len(parts) == 6 and [*parts[:2], *parts[3::2]] == [b"", b"proc", b"task", b"comm"]


def is_this_machine(family: int, address: bytes) -> bool:
    """Whether an address of the internet, as the kernel reads it, is on loopback."""
    if family == _AF_INET and len(address) >= 8:
        return address[4] == 127 or address[4:8] == bytes(4)
    if family == _AF_INET6 and len(address) >= 24:
        host = address[8:24]
        mapped = host[:12] == bytes(10) + b"\xff\xff"
        return host in (bytes(16), bytes(15) + b"\x01") or (mapped and (host[12] == 127 or host[12:] == bytes(4)))
    return False


def _connected(socket: int, address: bytes) -> int:
    """Connect, and return the error's number or 0."""
    libc = ctypes.CDLL(None, use_errno=True)
    return ctypes.get_errno() if libc.connect(socket, address, len(address)) < 0 else 0


def _descriptor_of(thread: int, descriptor: int) -> int:
    """A copy of another process's descriptor. Raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = libc.syscall(_PIDFD_OPEN, _leader_of(thread), 0)
    if process < 0:
        raise OSError(ctypes.get_errno(), "the process has ended")
    try:
        copy: int = libc.syscall(_PIDFD_GETFD, process, descriptor & 0xFFFFFFFF, 0)
        if copy < 0:
            raise OSError(ctypes.get_errno(), "its socket cannot be reached")
        return copy
    finally:
        os.close(process)


def _leader_of(thread: int) -> int:
    """The process that a thread belongs to."""
    with open(f"/proc/{thread}/status", "rb") as status:  # noqa: PTH123
        for line in status:
            if line.startswith(b"Tgid:"):
                return int(line.split()[1])
    raise OSError(errno.ESRCH, "the process has ended")


def hand_over(listener: int, give: int, taken: int) -> None:
    """Give the listener to the supervisor; no confined process keeps it, because it could allow itself everything."""
    os.write(give, struct.pack("i", listener))
    os.close(give)
    os.read(taken, 1)
    os.close(taken)
    os.close(listener)


def take_over(process: int, given: int, take: int) -> int:
    """The listener of a process that confines itself, or -1 where it ended before."""
    number = os.read(given, 4)
    os.close(given)
    try:
        return _descriptor_of(process, struct.unpack("i", number)[0]) if number else -1
    finally:
        os.close(take)
