"""Colours of verdicts and findings on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envwright.rules.engine import Verdict
    from envwright.rules.result import FindingKind

DEFAULT_WIDTH = 80
VERDICT_STYLES: dict[Verdict, str] = {
    "pass": "green",
    "fail": "bold red",
    "inconclusive": "yellow",
    "error": "bold magenta",
}
KIND_STYLES: dict[FindingKind, str] = {
    "error": "bold red",
    "bug": "bold magenta",
    "inconclusive": "yellow",
    "warning": "yellow",
    "advice": "cyan",
    "ignored": "dim",
}
