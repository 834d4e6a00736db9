"""The first screen of every report: the verdict, what to do next, and what ignoring it costs, in this order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envops.reports.summary import first_problem, first_unmet, headline, next_command
from envops.rules.engine import all_rules
from envops.text.commands import as_typed
from envops.text.visible_text import on_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envops.rules.engine import Finding
    from envops.rules.result import ValidationResult

MOST_NAMED = 3
"""The most environments that a sentence names; more are counted."""
LONGEST = 160
"""Characters of the advice and of the reason; each is cut at a sentence if it can be."""


@dataclass(frozen=True)
class FirstScreen:
    """Three things, as the user types and reads them. Empty texts are not shown."""

    verdict: str
    command: str
    """What to run next."""
    advice: str
    """What to change first."""
    cost: str
    """What it costs to ignore that."""


def first_screen(result: ValidationResult) -> FirstScreen:
    """The first screen of a run."""
    advice, cost = _of_problems(result) or _of_interruption(result) or _of_unmet(result)
    return FirstScreen(headline(result), next_command(result), as_typed(advice), as_typed(cost))


def _of_problems(result: ValidationResult) -> tuple[str, str] | None:
    if not result.problems:
        return None
    problem = first_problem(result.problems)
    place = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
    stopped = "What it concerns is refused." if result.environments else "Nothing was validated."
    return f"{place}: {_shortened(problem.message)}", stopped


def _of_interruption(result: ValidationResult) -> tuple[str, str] | None:
    if not result.interrupted:
        return None
    left = result.unfinished
    return "", f"{_named(left)} {'has' if len(left) == 1 else 'have'} no verdict." if left else ""


def _of_unmet(result: ValidationResult) -> tuple[str, str]:
    unmet = result.outline.unmet
    if not unmet:
        return "", ""
    name, finding = first_unmet(unmet)
    reason = "" if finding is None else _reason(finding)
    blocked = f"{_named([name for name, _ in unmet])} cannot be published."
    cost = reason if reason and len(unmet) == 1 else f"{reason} {blocked}".lstrip()
    if finding is None:
        return f"{name} was not judged: its report has the failure.", cost
    return f"{finding.rule} in {name}: {_shortened(finding.fix)}", cost


def _reason(finding: Finding) -> str:
    """Why the rule of a finding exists, which is what ignoring it costs."""
    known = all_rules().get(finding.rule)
    return "" if known is None or finding.bug else _shortened(known.why)


def _named(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED:
        return f"{len(names)} environments"
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def _shortened(text: str) -> str:
    """The first sentences that fit, or the beginning of the first one."""
    text = on_one_line(text)
    if len(text) <= LONGEST:
        return text
    ends = [found.end() for found in re.finditer(r"[.!?](?=\s)", text) if found.end() <= LONGEST]
    return text[: ends[-1]] if ends else f"{text[: LONGEST - 1].rstrip()}…"
