"""Mutants of generated code that no reply can detect, as marks for pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import libcst as cst

from envwright.observing.mutants.source import Site, mutants_of

if TYPE_CHECKING:
    from envwright.authoring.new.plan import EnvironmentPlan

CLOSED_TWICE_IS_NONE = ("number", "choice", "boolean", "label", "json")
"""The answers of which none is readable with a closing tag in it."""
JUDGE_REQUEST = ("'XXroleXX'", "'XXuserXX'", "'XXcontentXX'")
SPACES_ARE_IGNORED = ("json", "list", "latex")
"""The answers whose reading removes spaces around them."""


def marks_of(plan: EnvironmentPlan, modules: Mapping[str, str]) -> str:
    """The table of marks for modules, which are texts by path; empty where there is nothing to mark."""
    lines = {file: text.splitlines() for file, text in modules.items()}
    _, sites = mutants_of(modules, {file: range(len(those) + 1) for file, those in lines.items()}, {})
    marked = sorted((site.id, why) for site in sites for why in _reasons(plan, site, lines[site.file][site.line - 1]))
    rows = "".join(f'    {{ mutant = "{name}", reason = "{why}" }},\n' for name, why in marked)
    return f"\n[tool.envwright.mutation]\nequivalent = [\n{rows}]\n" if rows else ""


def _reasons(plan: EnvironmentPlan, site: Site, line: str) -> Iterator[str]:
    """Why no reply can detect a mutant of this line; nothing where one can."""
    old, new = (cst.Module([]).code_for_node(node) for node in (site.old, site.new))
    match site.function, site.operator:
        case "is_right", "drop condition" if "==" in new:
            yield "no task's answer is unreadable, so None equals none of them"
        case "final_answer", "swap method" if _is_none_closed_twice(plan) and "</answer>" in line:
            yield "text with another closing tag in it is not an answer either"
        case (("final_answer" | "is_right"), "drop normalisation") if (
            plan.answer in SPACES_ARE_IGNORED and "strip" in line
        ):
            yield "what reads the answer ignores spaces around it"
        case (("as_words" | "as_elements"), "change text") if old == '" "':
            yield "both sides are joined by the same text"
        case "as_program", "change text":
            yield "both sides are joined by the same text"
        case "final_answer", "fix return" if plan.answer == "latex" and new == '""' and "None" in line:
            yield "an empty box is not an answer either"
        case "FRACTION", "loosen regex" if r"(\d*)" in new:
            yield "a fraction with an empty part is no number and no task's answer"
        case "as_formula", _ if "\N{MINUS SIGN}" in old + new and not _has_minus(plan):
            yield "no task's answer has a minus sign"
        case _ if plan.prints and _is_wrong_either_way(site, line, old, new):
            yield "an output that cannot be read is as wrong as another answer"
        case "as_formula", "fix return" if new == '""' and line.strip() == "return formula":
            yield "neither text is a task's answer"
        case _, "change text" if _is_shown_to_judge(plan, site, old, new):
            yield "the judge of the gates knows the right answer and does not read the request"
        case function, _ if _judges(function) and _needs_odd_verdict(site, line, new):
            yield "the judge of the gates replies with one plain word"
        case _, "drop condition" if plan.kind == "judge" and new == "given is None":
            yield "the judge of the gates rejects an answer without letters and digits, too"
        case "reply_text", "change text":
            yield "text without an answer is scored like an empty reply"
        case "reply_text", "drop condition" if new != '""':
            yield "a completion has no reply only if the rollout failed before the first one"
        case "NUMBER", "loosen regex" if r"(?:,\d{3}){0,5}" in new:
            yield "digits without a separator are read by the other branch"
        case _ if plan.runs_code and (why := _of_the_sandbox(site, line, new)):
            yield why
        case "as_label", "drop normalisation" if new == "label" and plan.vocabulary == _lower(plan.vocabulary):
            yield "all labels are in lower case"


def _is_wrong_either_way(site: Site, line: str, old: str, new: str) -> bool:
    """Whether a mutant only reads a wrong output where the code reads none, or the other way round."""
    match site.function, site.operator:
        case (("as_words" | "as_elements" | "as_formula"), "drop condition"):
            return old.removesuffix(" or None") == new
        case "as_formula", "fix return" | "empty handler":
            return line.strip() == "return formula" and "raise" not in new
        case "as_json", "fix return":
            return line.strip() == "return None"
        case "as_json", "flip boolean":
            return "allow_nan" in line and new == "True"
        case "NUMBER", "loosen regex":
            return new.endswith(r']*"')
    return False


def _of_the_sandbox(site: Site, line: str, new: str) -> str:
    """Why no program of a reply can detect a mutant of what runs it; empty where one can."""
    match site.function.rpartition(".")[2], site.operator:
        case (("SECONDS" | "LONGEST"), "change number"):
            return "a little more or less of the limit stops the same programs"
        case "run", _ if "sys.executable if" in line:
            return "on this machine both names are a Python"
        case "run", "never branch" | "change text" if "cannot confine" in line:
            return "this kernel can confine programs"
        case "run", "drop statement" | "flip boolean" if "killpg" in line or "start_new_session" in line:
            return "a confined program starts no process that could outlive it"
        case "is_value", "drop condition" if "==" in new:
            return "a missing value is no literal either"
        case (("tests_passed" | "correct_output"), "drop condition") if "await" in new:
            return "without a program nothing runs, and there is no result"
    return ""


def _is_none_closed_twice(plan: EnvironmentPlan) -> bool:
    """Whether an answer with another closing tag in it earns nothing; a judge may accept it."""
    return plan.answer in CLOSED_TWICE_IS_NONE and plan.kind != "judge"


def _is_shown_to_judge(plan: EnvironmentPlan, site: Site, old: str, new: str) -> bool:
    """Whether a text is only part of the judge's prompt, or of the request around it."""
    if site.function == "means_the_same":
        return new in JUDGE_REQUEST
    return site.function == "PROMPT" or (site.function == f"{plan.class_name}.correct_answer" and old == r'"\n"')


def _judges(function: str) -> bool:
    return function == "means_the_same" or function.endswith("Judge.parse")


def _needs_odd_verdict(site: Site, line: str, new: str) -> bool:
    """Whether only a verdict with spaces or a full stop, or without one of the two words, shows the mutant."""
    if site.operator == "never branch":
        return True
    return site.operator in ("drop normalisation", "change text") and ".strip(" in line and ".strip(" not in new


def _has_minus(plan: EnvironmentPlan) -> bool:
    return any("-" in example.answer for examples in plan.splits.values() for example in examples)


def _lower(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text.casefold() for text in texts)
