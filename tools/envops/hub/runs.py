"""Training runs as the platform has them: listed whole, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envops.hub.access import HubAccess
from envops.hub.client import Answer, Call, ask_hub
from envops.hub.histograms import Histogram, histogram_of
from envops.hub.prime import Prime

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


@dataclass(frozen=True)
class RunDetails:
    """What the platform tells of one run."""

    run: PlatformRun
    model: str = ""
    max_steps: int | None = None
    metrics: tuple[Mapping[str, Any], ...] = ()
    log: str = ""
    checkpoints: tuple[Mapping[str, Any], ...] = ()
    samples: tuple[Mapping[str, Any], ...] = ()
    histogram: Histogram | None = None
    """How rewards spread at the latest step."""
    dollars: float | None = None
    unread: tuple[str, ...] = ()
    """What could not be read, and why."""


def read_run(prime: Prime, access: HubAccess, id: str, stop: threading.Event) -> RunDetails | None:
    """Everything about one run; `None` where the platform has none of this id.

    Raises `HubUnavailable`, `Interrupted`, and `RunsUnreadable` where nothing can be said of it.
    """
    base = f"/rft/runs/{id}"
    paths = {
        "run": (base, None),
        "metrics": (f"{base}/metrics", None),
        "logs": (f"{base}/logs", {"tail_lines": 400}),
        "checkpoints": (f"{base}/checkpoints", None),
        "samples": (f"{base}/samples", {"limit": 3}),
        "distributions": (f"{base}/distributions", {"type": "rewards"}),
        "usage": (f"/billing/runs/{id}/usage", None),
    }
    answers = ask_hub(prime, access, [Call(name, path, params) for name, (path, params) in paths.items()], stop)
    if answers["run"].outcome == "missing":
        return None
    row = _inner(answers["run"], "run")
    if not isinstance(row, Mapping) or not row.get("id"):
        raise RunsUnreadable(f"the run {id} could not be read: {answers['run'].message or 'the answer holds no run'}")
    steps = row.get("maxSteps")
    usage = answers["usage"].data if isinstance(answers["usage"].data, Mapping) else {}
    cost = usage.get("total_cost_usd")
    return RunDetails(
        run=_run(row),
        model=str(row.get("baseModel") or ""),
        max_steps=steps if isinstance(steps, int) else None,
        metrics=_rows(answers["metrics"], "metrics"),
        log=str(_inner(answers["logs"], "logs") or ""),
        checkpoints=_rows(answers["checkpoints"], "checkpoints"),
        samples=_rows(answers["samples"], "samples"),
        histogram=histogram_of(answers["distributions"].data),
        dollars=float(cost) if isinstance(cost, int | float) and cost else None,
        unread=tuple(f"{name}: {answers[name].message}" for name in paths if answers[name].outcome == "failed"),
    )


def _inner(answer: Answer, key: str) -> Any:
    return answer.data.get(key) if isinstance(answer.data, Mapping) else None


def _rows(answer: Answer, key: str) -> tuple[Mapping[str, Any], ...]:
    found = _inner(answer, key)
    return tuple(row for row in found if isinstance(row, Mapping)) if isinstance(found, list) else ()
