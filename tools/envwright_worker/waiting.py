"""Runs coroutines that do not wait without a loop."""

from __future__ import annotations

from typing import Any


class Waits(Exception):
    """A coroutine waits for something."""


def at_once(work: Any) -> Any:
    """The result of a coroutine that does not wait.

    Raises `Waits` if it waits, and any exception of the coroutine.
    """
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    finally:
        work.close()
    raise Waits
