"""How long each environment took last and how much memory it held, for whoever plans the next run.

One small file per environment, so that writers never wait for each other. What is damaged,
missing or not a sensible number is as if it had never been measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isfinite
from statistics import median

from envops.files.atomic_write import write_whole
from envops.repository.workspace import Workspace

GUESSED_SECONDS = 15.0
GUESSED_MEMORY = 700 * 2**20
"""An import of verifiers and an environment of ordinary size."""


@dataclass(frozen=True)
class Timing:
    """One observation from its lock to its last rollout."""

    seconds: float
    memory: int
    """Bytes that the worker and its children held at most."""


def remember_timing(name: str, timing: Timing, workspace: Workspace) -> None:
    """Keep it for the next run; a disk that takes nothing costs balance and no truth."""
    path = workspace.timings / f"{name}.json"
    with suppress(OSError):
        write_whole(path, json.dumps(asdict(timing)))


def expected_timings(names: Iterable[str], workspace: Workspace) -> dict[str, Timing]:
    """What each environment will take: as last time, or as the median of those that are known."""
    wanted = list(names)
    known = {name: timing for name in wanted if (timing := _read(name, workspace)) is not None}
    guess = _typical(known)
    return {name: known.get(name, guess) for name in wanted}


def _typical(known: Mapping[str, Timing]) -> Timing:
    if not known:
        return Timing(GUESSED_SECONDS, GUESSED_MEMORY)
    seconds = median(timing.seconds for timing in known.values())
    return Timing(seconds, max(timing.memory for timing in known.values()))


def _read(name: str, workspace: Workspace) -> Timing | None:
    try:
        said = json.loads((workspace.timings / f"{name}.json").read_bytes())
        seconds, memory = float(said["seconds"]), int(said["memory"])
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return None
    return Timing(seconds, memory) if isfinite(seconds) and seconds >= 0 and memory >= 0 else None
