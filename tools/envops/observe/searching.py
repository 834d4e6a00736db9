"""The host's side of the search for exploits: how far it may go, and what it is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envops.declare.package import Package
from envops.observe.process import WorkerProcess

SEARCH_LOCK = Path(__file__).parent / "locks" / "search.lock"
"""hypothesis, brought along to the worker."""
SEED = 0
EVALUATIONS = 3_000
EVALUATIONS_OF_CONVERSATIONS = 1_000
SECONDS = 2.5
"""The count ends a search of a cheap reward; the time is for all others."""
SECONDS_PER_REPLY = 2.0
SECONDS_PER_PLAY = 20.0
REQUEST_SECONDS = 120.0


def search_request(
    worker: WorkerProcess, package: Package, toolbox: Path, *, conversational: bool
) -> Iterator[tuple[str, Any]]:
    """Ask a worker to search."""
    return worker.request(
        "search",
        REQUEST_SECONDS,
        toolbox=str(toolbox),
        formats=package.reward.format,
        minimum=package.reward.min or 0.0,
        seed=SEED,
        evaluations=EVALUATIONS_OF_CONVERSATIONS if conversational else EVALUATIONS,
        seconds=SECONDS,
        seconds_per_reply=SECONDS_PER_REPLY,
        seconds_per_play=SECONDS_PER_PLAY,
    )
