"""Training runs as the platform has them: listed whole, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envops.observe.hub.access import HubAccess
from envops.observe.hub.asking import Answer, Call, ask_hub
from envops.observe.hub.prime import Prime

PAGE = 100
MOST_PAGES = 200
TRIES = 3
"""Runs that come and go while pages are read shift them: then everything is read again."""


class RunsUnreadable(Exception):
    """The runs of the platform are not known, so nothing may be submitted."""


@dataclass(frozen=True)
class PlatformRun:
    """One run of the platform."""

    id: str
    name: str
    status: str
    created: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status.upper() in ("COMPLETED", "FAILED", "STOPPED", "CANCELLED")


def list_runs(prime: Prime, access: HubAccess, stop: threading.Event) -> tuple[PlatformRun, ...]:
    """Every run that the key sees in its team, newest first.

    Read again where the pages do not fit together. Raises `RunsUnreadable`, `HubUnavailable`
    and `Interrupted`.
    """
    why = ""
    for _ in range(TRIES):
        runs, why = _listed(prime, access, stop)
        if not why:
            return runs
    raise RunsUnreadable(f"the list of training runs could not be read whole: {why}")


def _listed(prime: Prime, access: HubAccess, stop: threading.Event) -> tuple[tuple[PlatformRun, ...], str]:
    """The runs, and why they are not all; one page after the other."""
    found: dict[str, PlatformRun] = {}
    total: int | None = None
    for page in range(1, MOST_PAGES + 1):
        params: dict[str, Any] = {"page": page, "limit": PAGE}
        if access.team:
            params["team_id"] = access.team
        answer = ask_hub(prime, access, [Call("runs", "/rft/runs", params)], stop)["runs"]
        rows, said = _page(answer)
        if rows is None:
            return (), said
        found |= {run.id: run for run in rows}
        if total is not None and said_total(answer) != total:
            return (), f"their number changed from {total} to {said_total(answer)} while it was read"
        total = said_total(answer)
        if total is None:
            return tuple(found.values()), ""  # a server that knows no pages sends everything
        if len(found) >= total:
            return tuple(found.values()), ""
        if not rows:
            return (), f"{len(found)} of {total} were shown"
    return (), f"there are more than {MOST_PAGES * PAGE}"


def said_total(answer: Answer) -> int | None:
    """How many runs the platform says there are; `None` where it does not count them."""
    total = answer.data.get("total") if isinstance(answer.data, Mapping) else None
    return total if isinstance(total, int) else None


def _page(answer: Answer) -> tuple[list[PlatformRun] | None, str]:
    if answer.outcome != "ok":
        return None, answer.message or f"HTTP {answer.status}"
    rows = answer.data.get("runs") if isinstance(answer.data, Mapping) else None
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) and row.get("id") for row in rows):
        return None, "the answer holds no runs"
    return [_run(row) for row in rows], ""


def _run(row: Mapping[str, Any]) -> PlatformRun:
    return PlatformRun(
        id=str(row["id"]),
        name=str(row.get("name") or ""),
        status=str(row.get("status") or ""),
        created=str(row.get("createdAt") or row.get("created_at") or ""),
    )
