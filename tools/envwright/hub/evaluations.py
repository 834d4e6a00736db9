"""Evaluations on the platform: the list, the status of one, and its samples."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from envwright import exit_codes
from envwright.exit_codes import CommandError
from envwright.hub.access import HubAccess, Prime
from envwright.hub.client import HubAnswer, HubCall, call_hub

SAMPLES_OF_PAGE = 100
TRIES = 3
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"})


class EvaluationsUnreadable(CommandError):
    """The platform's evaluations could not be read; the message has the reason."""

    code = exit_codes.ERROR


@dataclass(frozen=True)
class PlatformEvaluation:
    """One evaluation as the platform shows it."""

    id: str
    name: str
    status: str
    """PENDING, RUNNING, COMPLETED, FAILED, CANCELLED or TIMEOUT."""
    samples: int = 0
    error: str = ""

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


def list_evaluations(
    prime: Prime, access: HubAccess, environment: str, stop: threading.Event
) -> tuple[PlatformEvaluation, ...]:
    """Every evaluation of an environment that the key can read in its team, newest first.

    Raises `EvaluationsUnreadable`, `HubUnavailable` and `Interrupted`.
    """
    params = {"environment_name": environment, **({"team_id": access.team} if access.team else {})}
    call = HubCall("evaluations", "/evaluations/", params, pages="skip")
    answer = call_hub(prime, access, [call], stop)["evaluations"]
    if answer.outcome != "ok":
        raise EvaluationsUnreadable(f"the platform's evaluations cannot be listed: {_why(answer)}")
    return tuple(_evaluation(each) for each in answer.data["items"] if isinstance(each, Mapping))


def read_evaluation(prime: Prime, access: HubAccess, id: str, stop: threading.Event) -> PlatformEvaluation:
    """The status of one. Raises `EvaluationsUnreadable`, `HubUnavailable` and `Interrupted`."""
    answer = call_hub(prime, access, [HubCall("evaluation", f"/evaluations/{id}")], stop)["evaluation"]
    if answer.outcome != "ok" or not isinstance(answer.data, Mapping) or not answer.data.get("status"):
        raise EvaluationsUnreadable(f"the evaluation {id} cannot be read: {_why(answer)}")
    return _evaluation(answer.data)


def read_samples(prime: Prime, access: HubAccess, id: str, stop: threading.Event) -> list[dict[str, Any]]:
    """All samples of an evaluation, each once.

    Everything is read again if the pages do not fit together. Raises `EvaluationsUnreadable`, `HubUnavailable` and
    `Interrupted`.
    """
    why = ""
    for _ in range(TRIES):
        samples, why = _samples(prime, access, id, stop)
        if not why:
            return samples
    raise EvaluationsUnreadable(f"the samples of {id} cannot be read completely: {why}")


def _samples(prime: Prime, access: HubAccess, id: str, stop: threading.Event) -> tuple[list[dict[str, Any]], str]:
    def page(number: int) -> HubCall:
        params = {"page": number, "limit": SAMPLES_OF_PAGE}
        return HubCall(f"page {number}", f"/evaluations/{id}/samples", params)

    first = call_hub(prime, access, [page(1)], stop)["page 1"]
    found, total = _page(first)
    if found is None or total is None:
        return [], _why(first)
    if not total or len(found) >= total:
        return found, "" if len(found) == total else f"{len(found)} samples on one page, of {total}"
    if not found:
        return [], f"none of {total} is on the first page"
    last = ceil(total / len(found))
    answers = call_hub(prime, access, [page(number) for number in range(2, last + 1)], stop)
    for number in range(2, last + 1):
        more, still = _page(answers[f"page {number}"])
        if more is None or still != total:
            return [], _why(
                answers[f"page {number}"]
            ) if more is None else f"their number changed from {total} to {still}"
        found += more
    return found, "" if len(found) == total else f"{len(found)} of {total} are on its pages"


def _page(answer: HubAnswer) -> tuple[list[dict[str, Any]] | None, int | None]:
    """The samples of a page and how many there are in all; `None` if the answer holds none."""
    data = answer.data if answer.outcome == "ok" and isinstance(answer.data, Mapping) else {}
    rows, total = data.get("samples"), data.get("total")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or not isinstance(total, int):
        return None, None
    return rows, total


def _evaluation(row: Mapping[str, Any]) -> PlatformEvaluation:
    samples = row.get("total_samples")
    return PlatformEvaluation(
        id=str(row.get("evaluation_id") or row.get("id") or ""),
        name=str(row.get("name") or ""),
        status=str(row.get("status") or ""),
        samples=samples if isinstance(samples, int) else 0,
        error=str(row.get("error_message") or ""),
    )


def _why(answer: HubAnswer) -> str:
    return answer.message or (f"HTTP {answer.status}" if answer.status not in (None, 200) else "it is malformed")
