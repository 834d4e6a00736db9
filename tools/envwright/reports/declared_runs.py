"""Reports of declared training runs: their configurations and findings."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from envwright.text.plain_data import counted, plain_data
from envwright.text.visible_text import on_one_line, prose, table_cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from envwright.rules.engine import Finding

_ORDER = {"error": 0, "warning": 1, "advice": 2}


@dataclass(frozen=True)
class RunResult:
    name: str
    backend: str
    model: str
    environments: tuple[str, ...]
    verdict: str
    """pass or fail, by the rules that count."""
    files: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    units: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    submit: str = "manual"
    state: str = ""
    """Its state on the platform, if queried."""


def render_runs(results: Sequence[RunResult], changed: Sequence[str] = (), *, quiet: bool = False) -> str:
    lines: list[str] = []
    for result in results:
        shown = [finding for finding in result.findings if not quiet or finding.counts]
        if quiet and not shown:
            continue
        sign = "✗" if result.verdict == "fail" else "✓"
        units = ", ".join(f"{count} {unit}" for unit, count in result.units.items())
        about = f"{result.backend}, {result.model}, {' + '.join(result.environments)}"
        lines.append(_shown(f"{sign} {result.name}: {about}" + (f" ({units})" if units else "")))
        if not quiet:
            lines += [_shown(f"    {'writes' if name in changed else 'config':<7} {name}") for name in result.files]
            lines += [_shown(f"    starts  {' '.join(result.command)}")] if result.command else []
            lines += [_shown(f"    state   {result.state}")] if result.state else []
            lines += [_shown(f"    note    {note}") for note in result.notes]
        for finding in sorted(shown, key=lambda each: _ORDER[each.severity]):
            lines += _finding(finding)
    return "\n".join([*lines, _summary(results, changed)]) + "\n"


def _finding(finding: Finding) -> list[str]:
    if finding.ignored:
        return [_shown(f"    {finding.rule} ignored: {finding.message}"), _shown(f"        reason  {finding.reason}")]
    lines = [_shown(f"    {finding.rule} {finding.severity}: {finding.message}")]
    if finding.line:
        lines.append(_shown(f"        at      {finding.at}"))
    return [*lines, _shown(f"        fix     {finding.fix}")]


def _summary(results: Sequence[RunResult], changed: Sequence[str]) -> str:
    failed = [result.name for result in results if result.verdict == "fail"]
    runs, files = counted(len(results), "run"), f"; {counted(len(changed), 'file')} changed" if changed else ""
    return f"{runs}{files}; failing: {', '.join(failed)}" if failed else f"{runs}, none fails{files}"


def render_runs_markdown(results: Sequence[RunResult]) -> str:
    """Runs as a table for a job's summary, with the findings below it."""
    lines = ["| | run | backend | model | environments | state |", "|---|---|---|---|---|---|"]
    for result in results:
        sign = "✗" if result.verdict == "fail" else "✓"
        cells = (result.name, result.backend, result.model, " + ".join(result.environments), result.state or "–")
        lines.append(f"| {sign} | " + " | ".join(table_cell(cell) for cell in cells) + " |")
    found = [
        f"- **{prose(finding.rule)}** {finding.severity}: {prose(finding.message)} Fix: {prose(finding.fix)}"
        for each in results
        for finding in each.findings
        if not finding.ignored
    ]
    return "\n".join([*lines, *([""] if found else []), *found]) + "\n"


def runs_as_json(results: Sequence[RunResult]) -> str:
    runs = [{**plain_data(result), "findings": list(map(finding_data, result.findings))} for result in results]
    return json.dumps({"version": 1, "runs": runs}, indent=2) + "\n"


def finding_data(finding: Finding) -> dict[str, Any]:
    """A finding of rules of runs or releases as plain data."""
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
        "fix": finding.fix,
        "evidence": finding.evidence.named(),
        "file": finding.file,
        "line": finding.line,
        "ignored": finding.ignored,
        "reason": finding.reason,
    }


def _shown(text: str) -> str:
    """One escaped line with its indentation."""
    return " " * (len(text) - len(text.lstrip(" "))) + on_one_line(text)
