"""The section on the distribution of rewards, with advice for training, that all reports share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envwright.reports.summary import SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envwright.reports.page import Page
    from envwright.statistics.intervals import MeasuredValue
    from envwright.statistics.measures import Distribution, MeasuredCheck

SCRIPTED = "a scripted policy: the advice below shows the method and does not apply to a model"


def title(measured: Distribution) -> str:
    return f"{measured.policy}: {measured.scored} of {measured.attempted} rollouts scored, {measured.tasks} tasks"


def number_lines(measured: Distribution) -> Iterator[tuple[str, str]]:
    if measured.mean is not None:
        yield "reward", f"mean {_spread(measured.mean)}, as a share of the declared range"
    within, between = measured.variance_within_tasks, measured.variance_between_tasks
    yield "variance", f"{within:.3f} within tasks (what groups learn from), {between:.3f} between"
    if measured.shaping is not None:
        shaping = measured.shaping
        yield (
            "",
            f"within tasks {shaping.outcome_variance:.3f} from the outcome, {shaping.shaped_variance:.3f} from form "
            f"and penalties; {shaping.by_form_alone} of {shaping.live_groups} informative groups differ only in these",
        )
    if (live := measured.live_groups) is not None:
        zero = f"zero variance {1 - live.value:.0%} ({1 - live.high:.0%} to {1 - live.low:.0%})"
        predicted = measured.predicted_live_groups
        more = "" if predicted is None else f"; per-task rates predict {1 - predicted:.0%}"
        yield "groups", f"of {measured.group_size}: {zero}{more}"
    if measured.pass_at:
        yield "pass@k", ", ".join(f"{k}: {chance:.2f}" for k, chance in measured.pass_at.items())
    if measured.errors:
        yield "errors", ", ".join(f"{name} {count}" for name, count in measured.errors.items())


def show(page: Page, measured: Distribution) -> None:
    page.line((title(measured), "bold"), indent=2)
    for label, text in number_lines(measured):
        page.field(label, text, indent=4)
    _table(page, measured)
    if measured.advice and measured.scripted:
        page.paragraph((SCRIPTED, "dim"), indent=4)
    for one in measured.advice:
        page.paragraph((f"{one.do}:", "cyan"), one.because, indent=4, hanging=6)
    page.blank()


def _table(page: Page, measured: Distribution) -> None:
    from envwright.reports.page import VERDICT_STYLES, TableColumn

    columns = [
        TableColumn(title, shrinking=title == "check") for title in ("", "rule", "check", "measured", "required")
    ]
    rows = [
        [
            (SIGNS[check.answer], VERDICT_STYLES[check.answer]),
            (check.rule, VERDICT_STYLES[check.answer]),
            (check.name, ""),
            (_measured(check), ""),
            (check.needed, ""),
        ]
        for check in measured.checks
    ]
    rows += [
        [("–", "dim"), (each.rule, "dim"), (each.name, ""), ("not judged", "dim"), ("", "")]
        for each in measured.not_judged
    ]
    if rows:
        page.table(columns, rows)
    for check in measured.checks:
        if check.more:
            page.paragraph((check.rule, VERDICT_STYLES[check.answer]), check.more, indent=4, hanging=6)
    for each in measured.not_judged:
        page.paragraph((each.rule, "dim"), f"not judged: {each.reason}", indent=4, hanging=6)


def markdown_lines(measured: Distribution) -> list[str]:
    """The section as plain lines; the caller escapes them."""
    lines = [f"{label}: {text}" if label else text for label, text in number_lines(measured)]
    lines += [
        f"{SIGNS[check.answer]} {check.rule} {check.name} {_measured(check)}, required {check.needed}: {check.answer}"
        f"{f'; {check.more}' if check.more else ''}"
        for check in measured.checks
    ]
    lines += [f"– {each.rule} {each.name}: not judged, {each.reason}" for each in measured.not_judged]
    if measured.advice and measured.scripted:
        lines.append(SCRIPTED)
    return lines + [f"{one.do}: {one.because}" for one in measured.advice]


def _measured(check: MeasuredCheck) -> str:
    return f"{check.value:g}" if check.count else _spread(check)


def _spread(estimate: MeasuredValue) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
