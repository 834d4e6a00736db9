"""A comparison of before and after as people read it: on a terminal, and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envops.reports.before_after import ComparisonReport
from envops.reports.page import Column, Page
from envops.text.markdown import prose, table_cell
from envops.text.visible_text import shortened

_STYLES = {"better": "green", "worse": "bold red", "undecided": "yellow"}


def render_text(report: ComparisonReport, *, width: int = 100, colour: bool = False, quiet: bool = False) -> str:
    """For the terminal."""
    page = Page(width=width, colour=colour)
    said = f"{report.environment}: {report.after.name} is {_word(report)} than {report.before.name}"
    if report.answer == "undecided":
        said = f"{report.environment}: not decided whether {report.after.name} is better than {report.before.name}"
    page.line((said, _STYLES[report.answer]))
    page.field("difference", difference_text(report), indent=2)
    page.field("why", report.reason, indent=2)
    for note in report.notes:
        page.field("note", note, indent=2)
    if quiet:
        return page.text()
    page.blank()
    titles = ("", "who spoke", "rollouts", "mean reward", "truncated", "tokens")
    rows = [[(cell, "") for cell in row] for row in _side_rows(report)]
    page.table([Column(title, right=place > 1, shrinking=place == 1) for place, title in enumerate(titles)], rows)
    page.blank()
    if report.functions:
        names = ("function", "weight", "before", "after", "difference")
        rows = [[(cell, "") for cell in row] for row in _function_rows(report)]
        page.table([Column(title, right=place > 0, shrinking=place == 0) for place, title in enumerate(names)], rows)
        page.blank()
    for title, tasks in (("got worse", report.losses()), ("got better", report.gains())):
        for task in tasks:
            where = f"task {task.index}" if task.index is not None else task.key
            said = f"{where}: {task.before:.3f} to {task.after:.3f}"
            page.line((title, "bold"), f"  {said}  {shortened(' '.join(task.prompt.split()), 80)}", indent=2)
    return page.text()


def render_markdown(report: ComparisonReport) -> str:
    """For a job's summary or a pull request."""
    lines = [f"### Before and after: {prose(report.environment)}", "", f"**{report.answer}**: {prose(report.reason)}"]
    lines += ["", f"Paired difference: {prose(difference_text(report))}", ""]
    lines += ["|  | who spoke | rollouts | mean reward | truncated | tokens |", "|---|---|---|---|---|---|"]
    lines += [f"| {name} | {table_cell(who)} | {' | '.join(rest)} |" for name, who, *rest in _side_rows(report)]
    if report.functions:
        lines += ["", "| function | weight | before | after | difference |", "|---|---|---|---|---|"]
        lines += [f"| {table_cell(name)} | {' | '.join(rest)} |" for name, *rest in _function_rows(report)]
    changed = [("worse", task) for task in report.losses()] + [("better", task) for task in report.gains()]
    if changed:
        lines += ["", "| task | before | after | prompt |", "|---|---|---|---|"]
    for how, task in changed:
        where = f"{how}: {task.index if task.index is not None else task.key}"
        lines.append(f"| {where} | {task.before:.3f} | {task.after:.3f} | {table_cell(shortened(task.prompt, 120))} |")
    lines += ["", *(f"- {prose(note)}" for note in report.notes)] if report.notes else []
    return "\n".join(lines) + "\n"


def difference_text(report: ComparisonReport) -> str:
    """The difference with its interval, and what it is a share of."""
    if report.difference is None:
        return "nothing to pair"
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
    for each in report.functions:
        difference = each.difference.text(signed=True) if each.difference else "too few tasks"
        yield each.name, f"{each.weight:g}", f"{each.before:.3f}", f"{each.after:.3f}", difference
