"""Retries of calls to services: one policy per service, with its transient HTTP statuses."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

from envwright.system.subprocesses import Interrupted

LONGEST_REQUESTED_SECONDS = 120.0
"""The longest pause that a service may request."""
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
CLOUDFLARE = frozenset({520, 522, 524, 529})
"""The statuses of a proxy in front of the Hub or of a model endpoint while the server behind it is not reachable."""


@dataclass(frozen=True)
class RetryPolicy:
    """The attempts of a call: their number, the retried statuses, and the pauses in seconds."""

    attempts: int
    first_seconds: float
    longest_seconds: float
    statuses: frozenset[int]

    def allows(self, status: int | None) -> bool:
        """Whether another attempt may succeed; `None` stands for a connection that broke or was refused."""
        return status is None or status in self.statuses

    def pause(self, attempt: int, requested: float | None = None) -> float:
        """Seconds after an attempt (counted from 0), and never fewer than the service requests.

        They double and have jitter, so that calls that failed together are not repeated together.

        Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
        """
        usual = min(self.longest_seconds, self.first_seconds * 2.0**attempt)
        return (requested or 0.0) + usual * random.uniform(0.5, 1.5)

    def wait(self, attempt: int, stop: threading.Event) -> None:
        """Wait until the next attempt. Raises `Interrupted` when `stop` is set."""
        if stop.wait(self.pause(attempt)):
            raise Interrupted


HUB_READ = RetryPolicy(3, first_seconds=0.7, longest_seconds=20.0, statuses=TRANSIENT | CLOUDFLARE)
HUB_PUSH = RetryPolicy(5, first_seconds=0.5, longest_seconds=20.0, statuses=TRANSIENT | CLOUDFLARE)
GITHUB = RetryPolicy(3, first_seconds=0.5, longest_seconds=20.0, statuses=frozenset({429, *range(500, 600)}))
"""A rate limit is often a 403, as a refusal is; `github/api.py` distinguishes them by the headers."""
MODEL_ENDPOINT = RetryPolicy(
    6, first_seconds=0.5, longest_seconds=30.0, statuses=TRANSIENT | CLOUDFLARE | frozenset({409})
)


def retry_after(header: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header requests, given as a number or as a date (RFC 9110, 10.2.3)."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(header) - now).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(seconds, 0.0) if seconds == seconds else None
