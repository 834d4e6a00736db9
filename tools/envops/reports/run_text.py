"""One training run on a terminal: where it stands, its curves in a line each, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envops.text.markdown import fenced, prose, table_cell
from envops.text.visible_text import on_one_line, shortened

if TYPE_CHECKING:
    from envops.reports.run_report import Curve, RunFinding, RunReport

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 40


def render_run(run: RunReport, samples: Sequence[Mapping[str, Any]] = (), *, quiet: bool = False) -> str:
    """The run as text."""
    lines = [_headline(run)]
    if not quiet:
        lines += [_curve(curve) for curve in run.curves]
        lines += [_rewards(run)] if run.rewards else []
        lines += [f"  note  {on_one_line(note)}" for note in run.notes]
        lines += [f"  rollout  {shortened(on_one_line(_sample(sample)), 300)}" for sample in samples]
    lines += [line for finding in run.findings for line in _finding(finding)]
    if not run.findings:
        lines.append("no signature of trouble was found")
    return "\n".join(lines) + "\n"


def render_run_markdown(run: RunReport) -> str:
    """The run for a job's summary: where it stands, first and last values, and what is wrong with its patches."""
    lines = [f"### {prose(_headline(run))}", ""]
    if run.curves:
        lines += ["| metric | first | last | steps |", "|---|---|---|---|"]
    for curve in run.curves:
        known = [point for point in curve.points if point.value is not None]
        if known:
            first, last = known[0], known[-1]
            lines.append(f"| {table_cell(curve.metric)} | {first.value:.3g} | {last.value:.3g} | {len(known)} |")
    for finding in run.findings:
        lines += ["", f"**{finding.rule}** {finding.severity}: {prose(finding.message)}", ""]
        told = [(key, finding.evidence.get(key)) for key in ("next", "stop")]
        lines += [f"- {key}: {prose(str(value))}" for key, value in told if value]
        lines += ["", fenced(finding.patch)] if finding.patch else []
    return "\n".join(lines) + "\n"


def _headline(run: RunReport) -> str:
    steps = f"step {run.steps_done}" if run.steps_done is not None else "no step yet"
    planned = f" of {run.steps_planned}" if run.steps_planned else ""
    about = ", ".join(part for part in (run.backend, run.model, " + ".join(run.environments)) if part)
    cost = f", ${run.cost:,.2f}" if run.cost is not None else ""
    return on_one_line(f"{run.name}: {run.status}, {steps}{planned}{cost}{f' ({about})' if about else ''}")


def _curve(curve: Curve) -> str:
    values = [point.value for point in curve.points if point.value is not None]
    if not values:
        return f"  {curve.metric:<26} nothing"
    low, high = min(values), max(values)
    shown = (
        values if len(values) <= WIDTH else [values[round(i * (len(values) - 1) / (WIDTH - 1))] for i in range(WIDTH)]
    )
    width = high - low
    bars = "".join(BARS[min(7, int((value - low) / width * 8))] if width else BARS[0] for value in shown)
    return f"  {on_one_line(curve.metric):<26} {bars}  {values[0]:.3g} to {values[-1]:.3g}"


def _rewards(run: RunReport) -> str:
    """How the rewards of a step spread: a bar for each bin."""
    most = max(1, max(each.count for each in run.rewards))
    bars = "".join(BARS[min(7, each.count * 8 // most)] if each.count else " " for each in run.rewards)
    total, at = (
        sum(each.count for each in run.rewards),
        "" if run.rewards_step is None else f" at step {run.rewards_step}",
    )
    reach = f"{run.rewards[0].low:.3g} to {run.rewards[-1].high:.3g}"
    return f"  {'rewards' + at:<26} {bars}  {total} rollouts from {reach}"


def _finding(finding: RunFinding) -> list[str]:
    lines = ["", f"{finding.rule} {finding.severity}: {on_one_line(finding.message)}"]
    told = [(key, finding.evidence.get(key)) for key in ("next", "stop")]
    lines += [f"    {key:<8} {on_one_line(str(value))}" for key, value in told if value]
    lines.append(f"    {'why':<8} {on_one_line(finding.fix)}")
    if finding.patch:
        lines += [f"    {row}".rstrip() for row in finding.patch.splitlines()]
    elif finding.evidence.get("change"):
        lines.append(f"    {'change':<8} {on_one_line(str(finding.evidence['change']))}")
    return lines


def _sample(sample: Mapping[str, Any]) -> str:
    reward = sample.get("reward")
    said = sample.get("completion") or sample.get("messages") or sample.get("text") or ""
    return f"reward {reward}: {said}"
