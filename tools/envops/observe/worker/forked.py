"""Work that may leave the process in any state, done in a fork of the worker."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

from .channel import Channel
from .failures import OutOfTime, said_as_exception
from .pools import end_pools
from .session import Session


class ChildDied(ChildProcessError):
    """The fork ended before its work was done."""


def items_from_fork(session: Session, work: Callable[[Session], None], seconds: float) -> Iterator[tuple[str, Any]]:
    """What the work sends over its session's channel, item by item, while a fork does it.

    Raises `OutOfTime` when it takes too long, `ChildDied` when the fork dies, and
    `RuntimeError` with the traceback when the work itself raises.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        gc.freeze()  # its collector would touch, and so copy, all that the worker holds
        _be_the_fork(session, work, write)
    os.close(write)
    try:
        yield from _items(read, time.monotonic() + seconds)
    finally:
        os.close(read)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _items(read: int, deadline: float) -> Iterator[tuple[str, Any]]:
    for message in _messages(read, deadline):
        if message["event"] == "item":
            yield message["kind"], message["value"]
        elif message["event"] == "failed":
            raise RuntimeError(message["failure"]["traceback"])
        else:
            return
    raise ChildDied("the fork that tries mutants died")


def _messages(read: int, deadline: float) -> Iterator[dict[str, Any]]:
    buffered = b""
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not select.select([read], [], [], remaining)[0]:
            raise OutOfTime("the fork ran into the time limit")
        part = os.read(read, 1 << 16)
        if not part:
            return
        *lines, buffered = (buffered + part).split(b"\n")
        yield from map(json.loads, lines)


def _be_the_fork(session: Session, work: Callable[[Session], None], write: int) -> None:
    """Do the work and leave; never returns into the worker's code."""
    try:
        session.channel = Channel(BytesIO(), os.fdopen(write, "wb", buffering=0))
        try:
            work(session)
        except BaseException as error:
            session.channel.failed(session.sources.failure(said_as_exception(error)))
        else:
            end_pools()  # whoever hears that all is done ends this fork
            session.channel.done()
    finally:
        sys.stderr.flush()
        end_pools()
        os._exit(0)
