"""The first screen of every report: the verdict, what to do next, and what ignoring it costs, in this order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envwright.reports.summary import first_unmet, headline, next_command
from envwright.rules.engine import all_rules
from envwright.text.visible_text import on_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envwright.rules.engine import Finding
    from envwright.rules.result import ValidationResult

MOST_NAMED = 3
"""The most environments that a sentence names; more are counted."""


@dataclass(frozen=True)
class FirstScreen:
    """Three things, as the user types and reads them. Empty texts are not shown."""

    verdict: str
    command: str
    """What to do first: mostly a command."""
    environment: str
    """The environment to begin with, where several did not pass and the command does not name it."""
    cost: str
    """What it costs to ignore that."""


def first_screen(result: ValidationResult) -> FirstScreen:
    """The first screen of a run."""
    unmet, command = result.outline.unmet, next_command(result)
    first = "" if len(unmet) < 2 or result.problems or result.interrupted else first_unmet(unmet)[0]
    return FirstScreen(headline(result), command, "" if first in command.split() else first, _cost(result))


def _cost(result: ValidationResult) -> str:
    if result.problems:
        return "Its environments and runs are refused." if result.environments else "Nothing is validated."
    if result.interrupted:
        left = result.unfinished
        return f"{_named(left)} {'has' if len(left) == 1 else 'have'} no verdict." if left else ""
    unmet = result.outline.unmet
    if not unmet:
        unready = [name for name, _ in result.outline.unready]
        return f"{_named(unready)} cannot be published." if unready else ""
    return _reason(first_unmet(unmet)[1]) or f"{_named([name for name, _ in unmet])} cannot be published."


def _reason(finding: Finding | None) -> str:
    """The first sentence on why the rule of a finding exists, which is what ignoring it costs."""
    known = None if finding is None or finding.bug else all_rules().get(finding.rule)
    return "" if known is None else _first_sentence(known.why)


def _named(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED:
        return f"{len(names)} environments"
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", on_one_line(text), maxsplit=1)[0]
