"""A plan for people and for machines: text, Markdown for the job's summary, JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from envops.release.steps import REFUSED, WRITES
from envops.text.markdown import code_span, prose, table_cell
from envops.text.plain_data import plain_data
from envops.text.visible_text import on_one_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.release.steps import Plan, Step
    from envops.rules.engine import Finding

FORMAT_VERSION = 1
SIGNS = {
    "create": "+",
    "publish": "+",
    "visibility": "~",
    "unchanged": " ",
    "conflict": "!",
    "drift": "!",
    "no-access": "!",
    "unreadable": "?",
    "not-asked": "?",
}
MOST_ROWS = 300
"""A job's summary holds a megabyte; beyond this the JSON is the place to look."""


def render_plan_text(plan: Plan, *, quiet: bool = False) -> str:
    """The plan for a terminal; with `quiet` only what a release would do or cannot do."""
    lines = [*_heads(plan)]
    width = max((len(step.desired.address) for step in plan.steps), default=0)
    shown = [step for step in plan.steps if step.action != "unchanged" or not (quiet or len(plan.steps) > 50)]
    for step in shown:
        lines.append(f"{SIGNS[step.action]} {step.desired.address:<{width}}  {step.action:<10}  {_reason(step)}")
        if step.next:
            lines.append(f"  {'':<{width}}  next: {step.next}")
        lines += [f"  {'':<{width}}  {_worded(each)}" for each in plan.findings.get(step.desired.name, ())]
    unchanged = sum(step.action == "unchanged" for step in plan.steps)
    if unchanged and len(shown) < len(plan.steps):
        lines.append(f"  {unchanged:,} unchanged")
    lines += [on_one_line(text) for text in _others(plan)]
    lines += ["", _sum(plan)]
    return "\n".join(visible(line).replace("\n", " ") for line in lines) + "\n"


def _heads(plan: Plan) -> Iterator[str]:
    if plan.not_asked:
        yield f"The Hub was not asked: {plan.not_asked}. This is what is declared."
    else:
        yield f"Read from the Hub as {plan.whose or 'a user without a name'}, with prime {plan.prime}."
    yield from plan.notes
    yield ""


def _worded(finding: Finding) -> str:
    weight = f"ignored, {finding.ignored}" if finding.ignored else finding.severity
    return f"{finding.rule} ({weight}): {finding.message} → {finding.fix}"


def _others(plan: Plan) -> Iterator[str]:
    for each in plan.external:
        if each.standing == "found":
            continue
        yield (
            f"? {each.address}  external  {each.standing}: {each.why}"
            if each.why
            else f"? {each.address}  external  {each.standing}"
        )
    for address in plan.orphans:
        yield f"? {address}  orphan  on the Hub and not in registry.yaml; it is left alone"
    for run in plan.runs:
        sign = "+" if run.action == "submit" else "!" if run.action == "refused" else " "
        yield f"{sign} run {run.name}  {run.action}  {'; '.join(filter(None, (run.reason, run.next)))}"


def _sum(plan: Plan) -> str:
    counted: dict[str, int] = {}
    for step in plan.steps:
        counted[step.action] = counted.get(step.action, 0) + 1
    parts = [f"{count:,} {action}" for action, count in counted.items()]
    said = "Nothing to do." if not plan.steps else f"{', '.join(parts)}."
    if any(plan.blocked(name) for name in plan.findings):
        said += " Version rules stop this release."
    elif plan.refused:
        said += " Somebody has to decide what is marked with !."
    return said


def render_plan_markdown(plan: Plan) -> str:
    """The plan as a page of Markdown that cannot be made to act by what it shows."""
    parts = ["## What merging would publish\n" if not plan.not_asked else "## What is declared\n"]
    parts += [f"{prose(line)}\n" for line in _heads(plan) if line]
    busy = [step for step in plan.steps if step.action != "unchanged" or plan.findings.get(step.desired.name)]
    if busy:
        parts.append("| | environment | action | version | what |\n|---|---|---|---|---|")
        parts[-1] += "".join(f"\n{_row(step)}" for step in busy[:MOST_ROWS]) + "\n"
    if len(busy) > MOST_ROWS:
        parts.append(f"{len(busy) - MOST_ROWS:,} more are in plan.json.\n")
    idle = len(plan.steps) - len(busy)
    if idle:
        parts.append(f"{idle:,} unchanged.\n")
    for step in busy[:MOST_ROWS]:
        parts += [
            f"- {code_span(step.desired.name)}: {prose(_worded(each))}"
            for each in plan.findings.get(step.desired.name, ())
        ]
    parts += [f"- {prose(on_one_line(line))}" for line in _others(plan)]
    parts.append(f"\n**{_sum(plan)}**")
    return "\n".join(parts) + "\n"


def _row(step: Step) -> str:
    sign = "✗" if step.action in REFUSED else "+" if step.action in WRITES else "?"
    what = prose(_reason(step) + (f". {step.next}" if step.next else "")).replace("|", "&#124;")
    address, version = table_cell(step.desired.address), table_cell(step.desired.version or "-")
    return f"| {sign} | {address} | {step.action} | {version} | {what} |"


def _reason(step: Step) -> str:
    if step.action == "not-asked":
        return f"{step.desired.visibility} at version {step.desired.version}"
    return step.reason


def plan_data(plan: Plan) -> dict[str, Any]:
    """The plan as plain data; the shape of plan.json."""
    return {
        "version": FORMAT_VERSION,
        "verdict": plan.verdict,
        "asked": not plan.not_asked,
        "not_asked": plan.not_asked,
        "whose": plan.whose,
        "prime": plan.prime,
        "notes": list(plan.notes),
        "environments": [_step_data(plan, step) for step in plan.steps],
        "external": [asdict(each) for each in plan.external],
        "orphans": list(plan.orphans),
        "runs": [asdict(run) for run in plan.runs],
    }


def _step_data(plan: Plan, step: Step) -> dict[str, Any]:
    return {
        **asdict(step.desired),
        "address": step.desired.address,
        "action": step.action,
        "reason": step.reason,
        "next": step.next,
        "found": asdict(step.found) if step.found else None,
        "findings": [finding_data(each) for each in plan.findings.get(step.desired.name, ())],
    }


def finding_data(finding: Finding) -> dict[str, Any]:
    """A finding of a release's rules as plain data."""
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
        "fix": finding.fix,
        "evidence": finding.evidence,
        "file": finding.place.file if finding.place else None,
        "line": finding.place.line if finding.place else None,
        "ignored": finding.ignored is not None,
        "reason": finding.ignored,
    }


def render_plan_json(plan: Plan) -> str:
    """The plan as JSON in plain ASCII."""
    return json.dumps(plain_data(plan_data(plan)), indent=2, ensure_ascii=True, allow_nan=False) + "\n"
