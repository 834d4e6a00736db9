"""Which environment is observed next: the longest first, as memory allows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from envops.validation.timings import Timing

SHARE_OF_MEMORY = 0.8
"""Of what was free when the run began: expectations can be exceeded."""


def in_order(timings: Mapping[str, Timing]) -> list[str]:
    """The longest first, so that none is left running alone at the end."""
    return sorted(timings, key=lambda name: (-timings[name].seconds, name))


def next_to_start(
    waiting: Sequence[str],
    running: Collection[str],
    timings: Mapping[str, Timing],
    workers: int,
    memory: int,
) -> str | None:
    """The environment to start now, or `None` to wait for one that runs.

    `memory` is what all together may hold, in bytes. One that expects more than that runs alone.
    """
    if len(running) >= workers:
        return None
    held = sum(timings[name].memory for name in running)
    for name in waiting:
        if not running or held + timings[name].memory <= memory * SHARE_OF_MEMORY:
            return name
    return None
