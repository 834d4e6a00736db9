"""Coroutines that wait for nothing need no loop."""

from __future__ import annotations

from typing import Any


class Waits(Exception):
    """A coroutine waits for something."""


def at_once(work: Any) -> Any:
    """What a coroutine returns that waits for nothing.

    Raises `Waits`, and whatever the coroutine does.
    """
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    finally:
        work.close()
    raise Waits
