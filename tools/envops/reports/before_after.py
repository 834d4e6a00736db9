"""A comparison of before and after as it is written down, and read again for the HTML report."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from envops.facts.observed import adapter
from envops.text.plain_data import plain_data

if TYPE_CHECKING:
    from envops.rules.engine import Verdict
    from envops.statistics.intervals import Estimate

FOLDER = "comparisons"
"""Inside the folder of reports."""
FORMAT_VERSION = 1
MOST_TASKS = 8
"""Tasks shown one by one on either end; the JSON has all."""
ANSWERS: Mapping[str, Verdict] = {"better": "pass", "worse": "fail", "undecided": "inconclusive"}


@dataclass(frozen=True)
class Interval:
    """A number with its interval."""

    value: float
    low: float | None
    high: float | None

    def text(self, *, signed: bool = False) -> str:
        form = "+.3f" if signed else ".3f"
        if self.low is None or self.high is None:
            return f"{self.value:{form}}"
        return f"{self.value:{form}} ({self.low:{form}} to {self.high:{form}})"


def interval_of(estimate: Estimate | None) -> Interval | None:
    """An estimate for the report; bounds that nothing is known of are `None`."""
    if estimate is None:
        return None
    known = math.isfinite(estimate.low) and math.isfinite(estimate.high)
    return Interval(estimate.value, estimate.low if known else None, estimate.high if known else None)


@dataclass(frozen=True)
class SideReport:
    """One side."""

    name: str
    kind: Literal["endpoint", "results", "recording"]
    speaker: str
    scripted: bool
    rollouts: int
    scored: int
    tasks: int
    mean: Interval | None
    """Of the rewards as shares of the declared range."""
    truncated: float
    tokens: float | None
    """Mean tokens answered a rollout, where they are known."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    cost: float | None = None
    """Dollars that this comparison spent on it."""


@dataclass(frozen=True)
class FunctionReport:
    """What one reward function said on both sides, as it said it."""

    name: str
    kind: str
    weight: float
    before: float
    after: float
    difference: Interval | None


@dataclass(frozen=True)
class TaskReport:
    """One task; `index` is `None` where the task is unknown here."""

    index: int | None
    key: str
    prompt: str
    before: float
    after: float
    rollouts: tuple[int, int]


@dataclass(frozen=True)
class ComparisonReport:
    """Everything that a comparison says."""

    environment: str
    digest: str
    answer: Literal["better", "worse", "undecided"]
    reason: str
    confidence: float
    range: tuple[float, float]
    """The declared range, whose shares rewards are told in."""
    difference: Interval | None
    before: SideReport
    after: SideReport
    functions: tuple[FunctionReport, ...] = ()
    tasks: tuple[TaskReport, ...] = ()
    """The greatest loss first."""
    only_before: int = 0
    only_after: int = 0
    notes: tuple[str, ...] = ()
    tool_version: str = ""
    version: int = FORMAT_VERSION

    @property
    def verdict(self) -> Verdict:
        return ANSWERS[self.answer]

    @property
    def file(self) -> str:
        """The name that its files have, without what they end with."""
        parts = (self.environment, self.before.name, self.after.name)
        return "--".join(re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-.") for part in parts)[:180]

    def losses(self) -> list[TaskReport]:
        return [task for task in self.tasks if task.after < task.before][:MOST_TASKS]

    def gains(self) -> list[TaskReport]:
        return [task for task in reversed(self.tasks) if task.after > task.before][:MOST_TASKS]


def render_json(report: ComparisonReport) -> str:
    """Everything, every task."""
    data = {**plain_data(asdict(report)), "verdict": report.verdict}
    return json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def read_comparisons(reports: Path, digests: Mapping[str, str]) -> list[dict[str, Any]]:
    """The comparisons below the folder of reports that are of these environments at these digests, by name.

    What is no comparison, or of another version or package, is passed over: it says nothing about what is shown.
    """
    found = []
    for path in sorted((reports / FOLDER).glob("*.json")):
        try:
            data = json.loads(path.read_bytes())
            verdict = data.pop("verdict")
            report = adapter(ComparisonReport).validate_python(data, strict=False)
        except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError):
            continue
        assert isinstance(report, ComparisonReport)
        if report.version == FORMAT_VERSION and digests.get(report.environment) == report.digest:
            found.append({**plain_data(asdict(report)), "verdict": verdict})
    return found
