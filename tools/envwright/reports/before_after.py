"""The report of a before-and-after comparison: text, Markdown, JSON, and its data for the HTML page."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from envwright_worker.splits import Split

from envwright.facts.observed import adapter
from envwright.text.markdown import prose, prose_cell, table_cell
from envwright.text.plain_data import plain_data
from envwright.text.visible_text import shortened

if TYPE_CHECKING:
    from envwright.rules.engine import Verdict
    from envwright.statistics.intervals import Estimate

FOLDER = "comparisons"
"""The subfolder of the folder of reports."""
FORMAT_VERSION = 1
MOST_TASKS = 8
"""The number of tasks shown at either end; the JSON has all."""
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
    """An estimate for the report; unknown bounds are `None`."""
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
    """The mean of the rewards as shares of the declared range."""
    truncated: float
    tokens: float | None
    """Mean tokens of the replies of a rollout, if known."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    date: str = ""
    cost: float | None = None
    """Dollars that this comparison spent on it."""


@dataclass(frozen=True)
class FunctionReport:
    """The scores of one reward function on both sides, as returned."""

    name: str
    kind: str
    weight: float
    before: float
    after: float
    difference: Interval | None


@dataclass(frozen=True)
class TaskReport:
    """One task; `index` is `None` if the task is unknown here."""

    index: int | None
    key: str
    prompt: str
    before: float
    after: float
    rollouts: tuple[int, int]


@dataclass(frozen=True)
class ComparisonReport:
    """The data of a comparison report."""

    environment: str
    digest: str
    answer: Literal["better", "worse", "undecided"]
    reason: str
    confidence: float
    range: tuple[float, float]
    """The declared range; rewards are shown as shares of it."""
    difference: Interval | None
    before: SideReport
    after: SideReport
    functions: tuple[FunctionReport, ...] = ()
    tasks: tuple[TaskReport, ...] = ()
    """The tasks, the greatest loss first."""
    only_before: int = 0
    only_after: int = 0
    split: Split = "train"
    """The source of the tasks that both sides played."""
    notes: tuple[str, ...] = ()
    tool_version: str = ""
    version: int = FORMAT_VERSION

    @property
    def verdict(self) -> Verdict:
        return ANSWERS[self.answer]

    @property
    def file(self) -> str:
        """The name of its files, without suffix."""
        parts = (self.environment, self.before.name, self.after.name)
        name = "--".join(re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip("-.") for part in parts)[:180]
        of_split = f"--{self.split}"
        return name if self.split == "train" or name.endswith(of_split) else name + of_split

    def losses(self) -> list[TaskReport]:
        return [task for task in self.tasks if task.after < task.before][:MOST_TASKS]

    def gains(self) -> list[TaskReport]:
        return [task for task in reversed(self.tasks) if task.after > task.before][:MOST_TASKS]


def render_json(report: ComparisonReport) -> str:
    """The whole report, with every task."""
    data = {**plain_data(asdict(report)), "verdict": report.verdict}
    return json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def read_comparisons(reports: Path, digests: Mapping[str, str]) -> list[dict[str, Any]]:
    """The comparisons below the folder of reports that are of these environments at these digests, by name.

    Other files, and comparisons of another version or package, are skipped.
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


_STYLES = {"better": "green", "worse": "bold red", "undecided": "yellow"}


def render_text(report: ComparisonReport, *, width: int = 100, colour: bool = False, quiet: bool = False) -> str:
    """The report for the terminal."""
    from envwright.reports.page import Page, TableColumn  # imports rich, which only terminals need

    page = Page(width=width, colour=colour)
    headline = f"{report.environment}: {report.after.name} is {_word(report)} than {report.before.name}"
    if report.answer == "undecided":
        headline = f"{report.environment}: undecided whether {report.after.name} is better than {report.before.name}"
    page.line((headline, _STYLES[report.answer]))
    page.field("difference", difference_text(report), indent=2)
    page.field("why", report.reason, indent=2)
    for note in report.notes:
        page.field("note", note, indent=2)
    if quiet:
        return page.text()
    page.blank()
    titles = ("", "policy or model", "rollouts", "mean reward", "truncated", "tokens")
    rows = [[(cell, "") for cell in row] for row in _side_rows(report)]
    page.table([TableColumn(title, right=place > 1, shrinking=place == 1) for place, title in enumerate(titles)], rows)
    page.blank()
    if report.functions:
        names = ("function", "weight", "before", "after", "difference")
        rows = [[(cell, "") for cell in row] for row in _function_rows(report)]
        page.table(
            [TableColumn(title, right=place > 0, shrinking=place == 0) for place, title in enumerate(names)], rows
        )
        page.blank()
    for title, tasks in (("worse", report.losses()), ("better", report.gains())):
        for task in tasks:
            where = f"task {task.index}" if task.index is not None else task.key
            headline = f"{where}: {task.before:.3f} to {task.after:.3f}"
            page.line((title, "bold"), f"  {headline}  {shortened(' '.join(task.prompt.split()), 80)}", indent=2)
    return page.text()


def render_markdown(report: ComparisonReport) -> str:
    """The report for a job's summary or a pull request."""
    lines = [f"### Before and after: {prose(report.environment)}", "", f"**{report.answer}**: {prose(report.reason)}"]
    lines += ["", f"Paired difference: {prose(difference_text(report))}", ""]
    lines += ["|  | policy or model | rollouts | mean reward | truncated | tokens |", "|---|---|---|---|---|---|"]
    lines += [f"| {name} | {table_cell(who)} | {' | '.join(rest)} |" for name, who, *rest in _side_rows(report)]
    if report.functions:
        lines += ["", "| function | weight | before | after | difference |", "|---|---|---|---|---|"]
        lines += [f"| {table_cell(name)} | {' | '.join(rest)} |" for name, *rest in _function_rows(report)]
    changed = [("worse", task) for task in report.losses()] + [("better", task) for task in report.gains()]
    if changed:
        lines += ["", "| task | before | after | prompt |", "|---|---|---|---|"]
    for how, task in changed:
        where = f"{how}: {task.index if task.index is not None else task.key}"
        prompt = table_cell(shortened(task.prompt, 120))
        lines.append(f"| {prose_cell(where)} | {task.before:.3f} | {task.after:.3f} | {prompt} |")
    lines += ["", *(f"- {prose(note)}" for note in report.notes)] if report.notes else []
    return "\n".join(lines) + "\n"


def difference_text(report: ComparisonReport) -> str:
    """The difference with its interval, as a share of the range."""
    if report.difference is None:
        return "no tasks in common"
    low, high = report.range
    return (
        f"{report.difference.text(signed=True)} of the range {low:g} to {high:g}, "
        f"{report.confidence:.0%} interval, paired over {len(report.tasks)} tasks"
    )


def _word(report: ComparisonReport) -> str:
    return "better" if report.answer == "better" else "worse"


def _side_rows(report: ComparisonReport) -> Iterator[Sequence[str]]:
    for name, side in (("before", report.before), ("after", report.after)):
        who = f"{side.name} ({side.speaker}{', a scripted policy' if side.scripted else ''})"
        mean = side.mean.text() if side.mean else "none"
        tokens = f"{side.tokens:,.0f}" if side.tokens is not None else "unknown"
        yield name, who, f"{side.scored} of {side.rollouts}", mean, f"{side.truncated:.0%}", tokens


def _function_rows(report: ComparisonReport) -> Iterator[Sequence[str]]:
    for function in report.functions:
        difference = function.difference.text(signed=True) if function.difference else "too few tasks"
        yield function.name, f"{function.weight:g}", f"{function.before:.3f}", f"{function.after:.3f}", difference
