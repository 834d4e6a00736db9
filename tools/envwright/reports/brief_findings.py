"""Why one environment did not pass, on one screen: up to three causes, and one line for everything else."""

from __future__ import annotations

import re
from collections import Counter
from itertools import takewhile
from typing import TYPE_CHECKING

from envwright.declarations.tool_source import REGISTRY_FILE
from envwright.reports.documentation import linked
from envwright.reports.evidence import shown_evidence
from envwright.reports.page import KIND_STYLES, VERDICT_STYLES
from envwright.reports.result import (
    DECIDING,
    EnvironmentResult,
    StageFailure,
    finding_kind,
    unreached_gates,
)
from envwright.rules.engine import ADD_CASE
from envwright.text.visible_text import on_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envwright.reports.page import Page
    from envwright.reports.result import FindingKind
    from envwright.rules.engine import Finding

SHOWS_ALL = "; -v shows all"
MOST_CAUSES = 3
MOST_NAMED = 8
"""The most rules in one line."""
INDENT = 4
MESSAGE_LINES, FIX_LINES = 2, 2
EVIDENCE_ROWS = 3
"""The most lines of evidence; with place, message, fix and waiting rules, a cause has at most eight lines."""
DECLARATION_LINES = 8
"""The most lines for registry.yaml: more than of other evidence, because they are pasted."""
NOT_SHOWN = ("error", "kind", "traceback", "task", "policy", "waiting", "more")
"""Evidence that the message contains, or that is too long for a line."""
_FRAME = re.compile(r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+).*\n(?! *File ")(?P<code>.*)$', re.MULTILINE)
"""A frame of a traceback that shows its line of code."""
_TOLD: dict[FindingKind, str] = {
    "error": "error",
    "bug": "bug in a rule",
    "inconclusive": "inconclusive",
    "warning": "warning",
    "advice": "advice",
    "ignored": "ignored or known",
}


def causes(
    page: Page, environment: EnvironmentResult, *, alone: int, quiet: bool, titled: bool = True, hint: str = SHOWS_ALL
) -> str:
    """One environment that did not pass; with `alone` such environments in the run, each gets fewer causes.

    Returns the hint, or nothing once it has been shown.
    """
    if titled:
        page.line((environment.name, "bold"), "  ", (environment.verdict, VERDICT_STYLES[environment.verdict]))
    first_of_rule: dict[str, Finding] = {}
    for finding in environment.findings:
        if finding_kind(finding) in DECIDING:
            first_of_rule.setdefault(finding.rule, finding)
    shown = list(first_of_rule.values())[: _most_causes(alone)]
    for finding in shown:
        _cause(page, finding)
    failures = environment.failures[: max(1, _most_causes(alone) - len(shown))]
    for failure in failures:
        _failure(page, failure)
    if not shown and not failures:
        _reasons(page, environment)
    rest = [finding for finding in environment.findings if not any(finding is each for each in shown)]
    if not quiet and (line := _rest(rest, len(environment.failures) - len(failures))):
        page.paragraph((f"also: {line}{hint}", "dim"), indent=2, hanging=4)
        page.blank()
        return ""
    return hint


def _most_causes(alone: int) -> int:
    return MOST_CAUSES if alone <= 2 else 2 if alone <= 4 else 1


def _cause(page: Page, finding: Finding) -> None:
    kind = finding_kind(finding)
    head = f"{finding.rule} {kind}: "
    message = fitted(finding.message, page.width - 9, MESSAGE_LINES, len(head))
    style = KIND_STYLES[kind]
    name = (finding.rule, linked(style, finding.rule))
    page.paragraph(name, (f"{kind}:", style), message, indent=2, hanging=9)
    if finding.at:
        page.line(f"{'at':<10} ", (finding.at, "cyan"), indent=INDENT)
    declaration = finding.evidence.details.get(REGISTRY_FILE)
    if isinstance(declaration, str):
        lines = declaration.splitlines()
        for line in lines[:DECLARATION_LINES]:
            page.line(line)
        if len(lines) > DECLARATION_LINES:
            page.line((f"… {len(lines) - DECLARATION_LINES} more lines; -v shows all", "dim"), indent=INDENT)
    else:
        for label, text in _evidence(finding):
            page.field(label, fitted(text, _room(page), 1), indent=INDENT)
    page.field("fix", _fitted_fix(finding.fix, _room(page)), indent=INDENT, style="green")
    if finding.waiting and declaration is None:
        page.field("waiting", fitted(_named(finding.waiting), _room(page), 1), indent=INDENT)
    page.blank()


def _room(page: Page) -> int:
    return page.width - INDENT - 11


def fitted(text: str, width: int, lines: int, taken: int = 0) -> str:
    """The text, cut to a number of lines of a field; wrapping leaves some of each unused."""
    text = on_one_line(text)
    most = max(20, width * lines - taken - (12 * (lines - 1)) - 1)
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _fitted_fix(fix: str, width: int) -> str:
    """The fix, cut before the command that writes its case: a command is useful only as a whole."""
    advice, begins, command = fix.partition(ADD_CASE)
    return fitted(advice, width, FIX_LINES, len(begins + command)) + (f" {begins}{command}" if begins else "")


def _evidence(finding: Finding) -> list[tuple[str, str]]:
    """The most important rows: the reply and its reward, or the author's line that raised."""
    shown = {entry.label: entry.text for entry in reversed(shown_evidence(finding)) if entry.label not in NOT_SHOWN}
    failure = finding.evidence.failure
    raised = _own_line(failure.traceback, finding) if failure is not None else ""
    labels = ("reply",) if raised else ("reply", "reward", "answer") if "reply" in shown else tuple(shown)
    rows = [*((label, shown[label]) for label in labels if shown.get(label)), *([("raised", raised)] if raised else [])]
    return rows[: EVIDENCE_ROWS - bool(finding.waiting)]


def _own_line(traceback: str, finding: Finding) -> str:
    """The author's line of code that raised: that of the finding's place, or else the first of the traceback."""
    frames = [(match["file"], int(match["line"]), match["code"].strip()) for match in _FRAME.finditer(traceback)]
    if finding.file is not None and frames:
        shared = [_shared_tail(file, finding.file) for file, _, _ in frames]
        in_file = [frame for frame, names in zip(frames, shared, strict=True) if names == max(shared) > 0]
        frames = [frame for frame in in_file if frame[1] == finding.line][-1:] or in_file[-1:] or frames
    return frames[0][2] if frames else ""


def _shared_tail(one: str, other: str) -> int:
    """The number of names at which two paths end alike: code runs from the wheel, and findings name the repository."""
    pairs = zip(reversed(one.split("/")), reversed(other.split("/")), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _failure(page: Page, failure: StageFailure) -> None:
    """Failures outside the environment."""
    text = f"{failure.type}: {failure.message}" if failure.type else failure.message
    message = fitted(text, page.width - 9, 3, len(failure.stage) + len(failure.kind) + 4)
    page.paragraph((f"{failure.stage}, {failure.kind}:", VERDICT_STYLES["error"]), message, indent=2, hanging=9)
    if failure.at:
        page.line(f"{'at':<10} ", (failure.at, "cyan"), indent=INDENT)
    page.blank()


def _reasons(page: Page, environment: EnvironmentResult) -> None:
    """Why gates did not pass, each reason once."""
    gates: dict[str, list[str]] = {}
    for gate, reason in unreached_gates(environment):
        gates.setdefault(reason, []).append(gate)
    for reason, named in gates.items():
        page.paragraph((f"{', '.join(named)}:", "yellow"), fitted(reason, page.width - 9, 3, 30), indent=2, hanging=4)
    page.blank()


def _rest(findings: Sequence[Finding], failures: int) -> str:
    """Everything else in one line, by kind and rule."""
    rules: dict[FindingKind, Counter[str]] = {}
    for finding in findings:
        rules.setdefault(finding_kind(finding), Counter())[finding.rule] += 1
    parts = [f"{count.total()} {_noun(kind, count.total())} ({_named(tuple(count))})" for kind, count in rules.items()]
    return ", ".join([*parts, *([f"{failures} more failures outside the environment"] if failures else [])])


def _noun(kind: FindingKind, count: int) -> str:
    return f"{_TOLD[kind]}s" if count > 1 and kind in ("error", "warning") else _TOLD[kind]


def _named(rules: Sequence[str]) -> str:
    more = f" and {len(rules) - MOST_NAMED} more" if len(rules) > MOST_NAMED else ""
    return f"{', '.join(rules[:MOST_NAMED])}{more}"
