"""Servers on loopback, each in a thread of its own: the relay, a policy in training, the emulated Hub."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web

START_SECONDS = 30.0
STOP_SECONDS = 10.0


class PortTaken(OSError):
    """The server cannot listen on its port."""


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

    `settings` are those of aiohttp's `AppRunner`. Raises `PortTaken`, the exceptions of opening and closing it, and
    `TimeoutError` if either takes too long.
    """
    loop, ended = asyncio.new_event_loop(), asyncio.Event()
    bound: Future[int] = Future()
    finished: Future[None] = Future()

    async def serve() -> None:
        async with opened() as application:
            runner = web.AppRunner(application, access_log=None, **settings)
            try:
                await runner.setup()
                try:
                    await web.TCPSite(runner, "127.0.0.1", port).start()
                except OSError as error:
                    raise PortTaken(error.errno, error.strerror) from None
                bound.set_result(int(runner.addresses[0][1]))
                await ended.wait()
            finally:
                await runner.cleanup()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(serve())
            finished.set_result(None)
        except BaseException as error:  # raised in the thread that waits for the port, or for the end
            if not bound.done():
                bound.set_exception(error)
            finished.set_exception(error)

    def stop() -> None:
        ended.set()
        for task in () if bound.done() else asyncio.all_tasks(loop):
            task.cancel()

    def end() -> None:
        with suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(stop)
        thread.join(timeout=STOP_SECONDS)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield Served(bound.result(timeout=START_SECONDS), loop)
    except BaseException:
        end()
        raise
    end()
    if thread.is_alive():
        raise TimeoutError(f"the server {name} did not end within {STOP_SECONDS:g} s")
    finished.result()
