"""The source of reward code with what is known of each line: who reached it, and the mutants in it."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING, Any

from envwright.facts.mutation import CASES
from envwright.rules.ready_case import ready_case

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CASE, GATE, NEVER, NOT_CALLED, NO_CODE = "c", "g", "n", "o", "-"
"""A line that a case of the author reached, one that only policies of the gate did, one that no conversation did,
one in a function that did not run, such as one that loads, and one that is not a statement of a function."""
DETECTED = ("killed", "timeout")
SHORT = 1_000
"""With shorter texts only the lines near mutants and unreached lines are shown."""
NEAR = 3


def lit_sources(mutation: Mapping[str, Any], longest: int) -> list[dict[str, Any]]:
    """Each module with reward code for the page, from its entry in validate.json; the most mutants first."""
    mutants = mutation["mutants"]
    shown = [
        _lit(source, [one for one in mutants if one["file"] == source["file"]], longest)
        for source in mutation.get("sources", ())
    ]
    return sorted(shown, key=lambda one: -len(one["detected"]) - len(one["mutants"]))


def _lit(source: Mapping[str, Any], mutants: Sequence[Mapping[str, Any]], longest: int) -> dict[str, Any]:
    text = source["text"]
    reached = {speaker: frozenset(lines) for speaker, lines in source["reached"].items()}
    speakers = sorted(reached, key=lambda name: (name != CASES, name))
    marks, lines = line_marks(text, reached), text.split("\n")
    by = [
        tuple(at for at, name in enumerate(speakers) if number in reached[name]) for number in range(1, len(lines) + 1)
    ]
    distinct = list(dict.fromkeys(by))
    kept = set(range(1, len(lines) + 1)) if longest >= SHORT else near_marks(marks, [one["line"] for one in mutants])
    return {
        "path": source["path"],
        "too_long": not text,
        "speakers": speakers,
        "by": distinct,
        "lines": [
            [number, lines[number - 1], marks[number - 1], distinct.index(by[number - 1])] for number in sorted(kept)
        ],
        "detected": _detected([one for one in mutants if one["outcome"] in DETECTED]),
        "mutants": [_undetected(one) for one in mutants if one["outcome"] not in DETECTED],
    }


def near_marks(marks: str, lines: Sequence[int]) -> set[int]:
    """The numbers of lines around mutants and unreached lines."""
    wanted = {*lines, *(number for number, mark in enumerate(marks, 1) if mark == NEVER)}
    return {near for number in wanted for near in range(number - NEAR, number + NEAR + 1) if 1 <= near <= len(marks)}


def line_marks(text: str, reached: Mapping[str, frozenset[int]]) -> str:
    """A letter for each line.

    A statement over several lines counts as reached if one of them was. Only statements of functions count, because
    a module's own run when it is imported and not while rewards are computed.
    """
    marks = [NO_CODE] * (text.count("\n") + 1)
    cases = reached.get(CASES, frozenset())
    every = frozenset[int]().union(*reached.values())
    for statements in _functions(text):
        unreached = NEVER if any(every & {*lines} for lines in statements) else NOT_CALLED
        for lines in statements:
            mark = CASE if cases & {*lines} else GATE if every & {*lines} else unreached
            for number in lines:
                marks[number - 1] = mark
    return "".join(marks)


def _functions(text: str) -> Iterator[list[range]]:
    """The lines of each statement of each function, of compound ones those before their body.

    A source that this Python cannot read has none.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the author's escapes in text
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield [_own_lines(statement) for statement in _within(node.body)]


def _within(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement below that runs, without docstrings and those of functions and classes within."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_docstring and not isinstance(statement, ast.Try | ast.TryStar | ast.Global | ast.Nonlocal):
            yield statement
        for block in _blocks(statement):
            yield from _within(block)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _own_lines(statement: ast.stmt) -> range:
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not body:
        return range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
    return range(statement.lineno, max(statement.lineno + 1, first.lineno))


def _undetected(mutant: Mapping[str, Any]) -> dict[str, Any]:
    apart = mutant["apart"]
    data = {key: mutant[key] for key in ("operator", "line", "outcome", "by", "reason", "diff")}
    if apart:
        completion = [dict(message) for message in apart["completion"]]
        data["case"] = ready_case(f"detects {mutant['id']}", apart["task"], completion, apart["original"])
    return data


def _detected(mutants: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Line, and the detected mutants in it: operator and replacement."""
    by_line: dict[int, list[list[str]]] = {}
    for one in mutants:
        by_line.setdefault(one["line"], []).append([one["operator"], one.get("replacement", "")])
    return [[line, *found] for line, found in sorted(by_line.items())]
