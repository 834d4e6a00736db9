"""Mutants of generated code that no reply can detect, as marks for pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from envops.validation.mutants.source import Site, mutants_of

if TYPE_CHECKING:
    from envops.authoring.new.plan import EnvironmentPlan

CLOSED_TWICE_IS_NONE = ("number", "choice", "boolean", "label", "json")
"""The answers of which none is readable with a closing tag in it."""
SPACES_ARE_IGNORED = ("json", "list")
"""The answers whose reading removes spaces around them."""


def marks_of(plan: EnvironmentPlan, answers: str) -> str:
    """The table of marks for the module `answers.py` with this text; empty where there is nothing to mark."""
    file = f"{plan.module}/answers.py"
    _, sites = mutants_of({file: answers}, {file: range(len(answers.splitlines()) + 1)}, {})
    lines = answers.splitlines()
    marked = sorted((site.id, why) for site in sites for why in _reasons(plan, site, lines[site.line - 1]))
    rows = "".join(f'    {{ mutant = "{name}", reason = "{why}" }},\n' for name, why in marked)
    return f"\n[tool.envops.mutation]\nequivalent = [\n{rows}]\n" if rows else ""


def _reasons(plan: EnvironmentPlan, site: Site, line: str) -> Iterator[str]:
    """Why no reply can detect a mutant of this line; nothing where one can."""
    old, new = (cst.Module([]).code_for_node(node) for node in (site.old, site.new))
    match site.function, site.operator:
        case "is_right", "drop condition" if "==" in new:
            yield "no task's answer is unreadable, so None equals none of them"
        case "final_answer", "swap method" if plan.answer in CLOSED_TWICE_IS_NONE and "</answer>" in line:
            yield "text with another closing tag in it is not an answer either"
        case "final_answer", "drop normalisation" if plan.answer in SPACES_ARE_IGNORED and "strip" in line:
            yield "what reads the answer ignores spaces around it"
        case (("as_words" | "as_elements"), "change text") if old == '" "':
            yield "both sides are joined by the same text"
        case "NUMBER", "loosen regex" if r"(?:,\d{3}){0,5}" in new:
            yield "digits without a separator are read by the other branch"
        case "as_label", "drop normalisation" if new == "label" and plan.vocabulary == _lower(plan.vocabulary):
            yield "all labels are in lower case"


def _lower(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text.casefold() for text in texts)
