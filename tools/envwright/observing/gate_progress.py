"""Progress of one environment whose gates schema and rewards are judged as soon as their stages have ended.

The gates of rollouts are judged at the end, because the facts of both are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TextIO

from envwright.facts.observed import Facts
from envwright.facts.stages import StageName, needed_by
from envwright.observing.verdicts import ValidationRequest, judged
from envwright.reports.progress import PlainProgress
from envwright.reports.result import EnvironmentResult
from envwright.rules.engine import Gate, Verdict

SILENCE_SECONDS = 5.0
EARLY: tuple[Gate, ...] = ("schema", "rewards")


@dataclass(frozen=True)
class GateStep:
    """The judgement of one gate."""

    gate: Gate
    verdict: Verdict | None
    """`None` while stages that the gate needs are running and nothing has failed it yet."""
    result: EnvironmentResult
    """With the findings of this gate alone."""
    goes_on: tuple[StageName, ...] = ()
    """Stages of the gate that have looked, found nothing, and have not ended."""


class GateProgress(PlainProgress):
    """Calls `show` with the verdicts of the early gates, and with what the first replies show before."""

    def __init__(self, request: ValidationRequest, name: str, stream: TextIO, show: Callable[[GateStep], None]) -> None:
        super().__init__([name], stream, silence=SILENCE_SECONDS)
        self._request, self._show = request, show
        self._shown: set[Gate] = set()
        self._has_replies = False
        """Whether the judgement of the first replies was shown."""
        self._judging = ThreadPoolExecutor(1)
        """Judging takes some 50 ms, which the next stage does not wait for."""

    def ended(self, name: str, facts: Callable[[], Facts]) -> None:
        self._judging.submit(self._safely, self._judge, name, facts())

    def _judge(self, name: str, facts: Facts) -> None:
        reached = {*facts.completed, *facts.failures}
        for gate in EARLY:
            if gate in self._shown:
                continue
            needed = needed_by(gate)
            is_decided = reached.issuperset(needed)
            are_replies = gate == "rewards" and "rewards" in reached and not self._has_replies
            if not is_decided and not are_replies:
                continue
            self._has_replies = self._has_replies or are_replies
            goes_on = tuple(stage for stage in needed if stage in reached and stage not in facts.seconds)
            result = judged(replace(self._request, gates=(gate,)), name, facts, cached=False, started=time.monotonic())
            verdict = result.gates[gate]
            if is_decided:
                self._shown.add(gate)
            self._show(GateStep(gate, verdict if is_decided or verdict == "fail" else None, result, goes_on))

    def _close(self) -> None:
        self._judging.shutdown()
        super()._close()

    def _show_observing(self, name: str) -> None:
        """Its gates are shown instead."""

    def _show_finished(self, result: EnvironmentResult) -> None:
        """Its gates are shown instead."""
