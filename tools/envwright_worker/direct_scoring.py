"""Faster scores for the search and for mutants, which score thousands of replies.

Most of the time of a cheap score is spent in verifiers' own code around the functions: a loop, tasks, signatures read
again. The search and the mutants never rely on one score: a find can be scored again, and a mutant is compared with
the original, scored the same way. Everything else is scored by verifiers alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from envwright_worker.failures import OutOfTime
from envwright_worker.messages import Message
from envwright_worker.session import time_limit

if TYPE_CHECKING:
    from envwright_worker.adapters.adapter import TaskView
    from envwright_worker.session import Session

COMPARED = 12
"""The number of first replies that are scored both ways: the reference and the empty reply on the tasks of a search; of
mutants' conversations, one or more of each outcome."""


class DirectScoring:
    """Scores directly as long as that agrees with verifiers' own scoring; from the first difference on, in full."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._compared = 0
        self._agrees = True

    def scored(self, task: TaskView, completion: Sequence[Message], seconds: float) -> dict[str, Any]:
        """A score by the code itself: the first ones are compared with scoring in full.

        Raises `OutOfTime`.
        """
        if not self._agrees or self._compared >= COMPARED:
            return self.scored_by_any(task, completion, seconds)
        self._compared += 1
        row = self._session.scored_once(task, completion, seconds)
        try:
            direct = self._direct(task, completion, seconds)
        except OutOfTime:
            direct = None
        self._agrees = direct is not None and _equal(row, direct)
        return row

    def scored_by_any(self, task: TaskView, completion: Sequence[Message], seconds: float) -> dict[str, Any]:
        """A score by the code in place, perhaps a mutant, without comparison.

        If a function fails, the reply is scored in full. If that succeeds, nothing is scored directly any more: code
        that waits may raise because it runs in no task. Raises `OutOfTime`.
        """
        direct = self._direct(task, completion, seconds) if self._agrees else None
        if direct is not None and not _failed(direct):
            return direct
        row = self._session.scored_once(task, completion, seconds)
        if direct is not None:
            self._agrees = _failed(row)
        return row

    def _direct(self, task: TaskView, completion: Sequence[Message], seconds: float) -> dict[str, Any] | None:
        """A score as if the loop ran: without one, code that begins to wait would raise, and code that catches this
        would continue."""
        running = asyncio._get_running_loop()
        with time_limit(seconds):
            try:
                asyncio._set_running_loop(self._session.loop)
                return self._session.adapter.score_directly(task, completion)
            finally:
                asyncio._set_running_loop(running)


def _failed(row: dict[str, Any]) -> bool:
    return bool(row["failures"] or row["failure"])


def _equal(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two scores are equal, apart from their duration and tracebacks."""

    def comparable(row: dict[str, Any]) -> Any:
        raised = [(each["function"], each["failure"]["type"], each["failure"]["message"]) for each in row["failures"]]
        return row["reward"], row["functions"], raised, row["failure"]

    return repr(comparable(first)) == repr(comparable(second))
