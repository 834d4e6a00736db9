"""Questions to a person on a terminal."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from envwright.exit_codes import CommandError
from envwright.system.subprocesses import Interrupted


def can_ask() -> bool:
    """Whether a person can answer: on a terminal, and not in CI."""
    return not os.environ.get("CI") and sys.stdin.isatty() and sys.stderr.isatty()


def confirmed(question: str, options: argparse.Namespace) -> bool:
    """Whether to publish or to pay: the reply of a person, or `--yes`.

    Raises `CommandError` without a terminal, and `Interrupted` if the input has ended.
    """
    if options.yes:
        return True
    if not can_ask():
        message = f"{question} Questions are asked only on a terminal and outside CI, so nothing was done."
        raise CommandError(f"{message}\n    next: add --yes, or --dry-run to only show it")
    replies = ("y", "yes", "n", "no")
    typed = answer(f"{question} [y/n]", refusal=lambda text: "" if text.lower() in replies else "reply y or n")
    return typed.lower() in replies[:2]


def answer(question: str, allowed: tuple[str, ...] = (), *, refusal: Callable[[str], str] = lambda _: "") -> str:
    """The reply to a question, on one line; asked again until it is empty or allowed.

    `refusal` returns the reason to ask again, or an empty text; it is also called for an empty reply.
    Raises `Interrupted` if the input has ended.
    """
    while True:
        print(f"{question}: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise Interrupted
        typed = line.strip()
        if reason := refusal(typed):
            print(f"  {reason}", file=sys.stderr)
        elif not typed or not allowed or typed in allowed:
            return typed
