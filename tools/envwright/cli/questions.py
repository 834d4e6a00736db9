"""Questions to a person on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def can_ask() -> bool:
    """Whether a person can answer: on a terminal, and not in CI."""
    return not os.environ.get("CI") and sys.stdin.isatty() and sys.stderr.isatty()


def answer(question: str, allowed: tuple[str, ...] = (), *, refusal: Callable[[str], str] = lambda _: "") -> str:
    """The reply to a question, on one line; asked again until it is empty or allowed.

    `refusal` returns the reason to ask again, or an empty text; it is also called for an empty reply. Raises `EOFError`
    if the input has ended.
    """
    while True:
        print(f"{question}: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        typed = line.strip()
        if reason := refusal(typed):
            if not line:
                raise EOFError
            print(f"  {reason}", file=sys.stderr)
        elif not typed or not allowed or typed in allowed:
            return typed
