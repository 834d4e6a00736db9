"""Closing this process to the other processes of its user."""

from __future__ import annotations

import ctypes
from contextlib import suppress

PR_SET_DUMPABLE = 4


def hide_memory() -> None:
    """Prevent other processes of the same user from reading this one's memory and initial variables (Linux).

    Without it, an environment's code could find keys in `/proc/PID/environ`. Root still can, and programs that this
    process starts are not covered.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
