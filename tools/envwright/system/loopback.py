"""Servers on loopback, each in a thread of its own: the relay, a policy in training, the emulated Hub."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

START_SECONDS = 30.0
STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Served:
    """A running server."""

    port: int
    loop: asyncio.AbstractEventLoop
    """The event loop of its thread."""


@contextmanager
def served(
    name: str,
    opened: Callable[[], AbstractAsyncContextManager[web.Application]],
    *,
    port: int = 0,
    **settings: Any,
) -> Iterator[Served]:
    """Serve an application until the block ends; `opened` and its resources live in the server's own loop.

    `settings` are those of aiohttp's `AppRunner`. Raises the exceptions of opening it, and `OSError` if the port is
    taken.
    """
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()
    bound: Future[int] = Future()

    async def serve() -> None:
        async with opened() as application:
            runner = web.AppRunner(application, access_log=None, **settings)
            try:
                await runner.setup()
                await web.TCPSite(runner, "127.0.0.1", port).start()
                bound.set_result(int(runner.addresses[0][1]))
                await ended.wait()
            finally:
                await runner.cleanup()

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(serve())
        except BaseException as error:  # raised in the thread that waits for the port
            if not bound.done():
                bound.set_exception(error)
        finally:
            loop.close()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    running = Served(bound.result(timeout=START_SECONDS), loop)
    try:
        yield running
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(ended.set)
        thread.join(timeout=STOP_SECONDS)
