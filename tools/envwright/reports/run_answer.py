"""The answer of a finished run: was it worth it, by how much, on which tasks, for how much, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from envwright.statistics.before_after import GoalAnswer
from envwright.text.markdown import prose
from envwright.text.visible_text import on_one_line, shortened

if TYPE_CHECKING:
    from envwright.rules.engine import Verdict

HEADLINES: Mapping[GoalAnswer, str] = {
    "reached": "better, by at least what was worth having",
    "smaller": "not better by what was worth having",
    "undecided": "not decided",
    "worse": "worse",
}
ANSWER_VERDICTS: Mapping[GoalAnswer, Verdict] = {
    "reached": "pass",
    "smaller": "fail",
    "undecided": "inconclusive",
    "worse": "fail",
}
TASKS_SHOWN = 3


@dataclass(frozen=True)
class EnvironmentAnswer:
    """The answer on the tasks of one environment."""

    environment: str
    answer: GoalAnswer
    reason: str
    comparison: Mapping[str, Any]
    """The comparison as its JSON has it, with the tasks that changed most."""


@dataclass(frozen=True)
class RunAnswer:
    """The answer of one run."""

    answer: GoalAnswer
    result: str
    """The result that was compared: `RUN@STEP`."""
    fixed: Mapping[str, str]
    """What was fixed before the run, by name."""
    fixed_where: str
    """Where that is recorded; empty if the declaration of today had to serve."""
    environments: tuple[EnvironmentAnswer, ...]
    spent: Mapping[str, str] = field(default_factory=dict)
    suspicions: tuple[str, ...] = ()
    """Signs that the reward rose and the skill did not."""
    next: tuple[str, ...] = ()


def render_answer(name: str, answer: RunAnswer) -> str:
    """The answer for the terminal."""
    lines = [f"{name}: {HEADLINES[answer.answer]} ({answer.result})"]
    lines += [f"  {label:<16}{on_one_line(value)}" for label, value in _rows(answer)]
    return "\n".join(lines) + "\n"


def render_answer_markdown(name: str, answer: RunAnswer) -> str:
    """The answer for a job's summary or a pull request."""
    lines = [f"### {prose(name)}: {HEADLINES[answer.answer]}", "", f"Result: {prose(answer.result)}", ""]
    lines += [f"- **{label}**: {prose(value)}" for label, value in _rows(answer)]
    return "\n".join(lines) + "\n"


def _rows(answer: RunAnswer) -> list[tuple[str, str]]:
    rows = []
    for each in answer.environments:
        rows.append((each.environment, f"{difference_of(each.comparison)}: {each.reason}"))
        tasks = each.comparison["tasks"]
        lost = [task for task in tasks if task["after"] < task["before"]][:TASKS_SHOWN]
        won = [task for task in reversed(tasks) if task["after"] > task["before"]][:TASKS_SHOWN]
        rows += [("lost", _task(task)) for task in lost] + [("gained", _task(task)) for task in won]
    rows += [("fixed before", f"{name}: {value}") for name, value in answer.fixed.items()]
    rows.append(
        ("recorded in", answer.fixed_where or "nothing was fixed before the run: today's registry.yaml is used")
    )
    rows += [("spent", f"{name}: {value}") for name, value in answer.spent.items()]
    rows += [("reward", each) for each in answer.suspicions or ("no sign of gaming in what was judged",)]
    return rows + [("next", each) for each in answer.next]


def difference_of(comparison: Mapping[str, Any]) -> str:
    """The paired difference with its interval, as a share of the reward's range."""
    found = comparison["difference"]
    if found is None:
        return "no tasks in common"
    interval = "" if found["low"] is None else f" ({found['low']:+.3f} to {found['high']:+.3f})"
    return f"{found['value']:+.3f}{interval}, paired over {comparison['tasks_count']} tasks"


def _task(task: Mapping[str, Any]) -> str:
    where = task["key"] if task["index"] is None else f"task {task['index']}"
    prompt = shortened(on_one_line(task["prompt"]), 70)
    return f"{where}: {task['before']:.3f} to {task['after']:.3f}  {prompt}"
