"""Evaluations on the platform: the list, the status of one, and its samples."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envwright import exit_codes
from envwright.exit_codes import CommandError
from envwright.hub.access import HubAccess, Prime
from envwright.hub.client import TRIES, HubCall, call_hub, numbered_pages

ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"})


class EvaluationsUnreadable(CommandError):
    """The platform's evaluations could not be read; the message has the reason."""

    code = exit_codes.ERROR


@dataclass(frozen=True)
class PlatformEvaluation:
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
        raise EvaluationsUnreadable(f"the platform's evaluations cannot be listed: {answer.why}")
    return tuple(map(_evaluation, answer.rows("items")))


def read_evaluation(prime: Prime, access: HubAccess, id: str, stop: threading.Event) -> PlatformEvaluation:
    """The status of one. Raises `EvaluationsUnreadable`, `HubUnavailable` and `Interrupted`."""
    answer = call_hub(prime, access, [HubCall("evaluation", f"/evaluations/{id}")], stop)["evaluation"]
    if not answer.table.get("status"):
        raise EvaluationsUnreadable(f"the evaluation {id} cannot be read: {answer.why}")
    return _evaluation(answer.table)


def read_samples(prime: Prime, access: HubAccess, id: str, stop: threading.Event) -> list[dict[str, Any]]:
    """All samples of an evaluation, each once.

    Everything is read again if the pages do not fit together. Raises `EvaluationsUnreadable`, `HubUnavailable` and
    `Interrupted`.
    """
    why = ""
    for _ in range(TRIES):
        samples, total, why = numbered_pages(prime, access, f"/evaluations/{id}/samples", "samples", stop)
        if not why and total is not None:
            return samples
    raise EvaluationsUnreadable(f"the samples of {id} cannot be read completely: {why or 'they are not counted'}")


def _evaluation(row: Mapping[str, Any]) -> PlatformEvaluation:
    samples = row.get("total_samples")
    return PlatformEvaluation(
        id=str(row.get("evaluation_id") or row.get("id") or ""),
        name=str(row.get("name") or ""),
        status=str(row.get("status") or ""),
        samples=samples if isinstance(samples, int) else 0,
        error=str(row.get("error_message") or ""),
    )
