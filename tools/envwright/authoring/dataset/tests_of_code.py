"""Tests of programs as data: a call or an input, and the expected value.

Datasets have them as assertions or as pairs of input and output. Tested code must not see the expected value, so an
assertion is split: the call goes to the program, the value stays outside.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from envwright.text.python_source import parse_python


@dataclass(frozen=True)
class CodeTest:
    """Either a call and its expected value, or an input and the expected output."""

    call: str = ""
    """A Python expression."""
    input: str = ""
    expected: str = ""
    """The expected value: a Python literal for a call, else the text to be printed."""


def read_tests(value: Any, entry_point: str = "") -> tuple[CodeTest, ...]:
    """Every test of a row that can be parsed; others are left out."""
    return tuple(_tests(value, entry_point))


def _tests(value: Any, entry_point: str) -> Iterator[CodeTest]:
    if isinstance(value, str):
        yield from _in_text(value, entry_point)
    elif isinstance(value, Mapping):
        yield from _pairs(value)
    elif isinstance(value, list):
        for one in value:
            yield from _tests(one, entry_point)


def _in_text(text: str, entry_point: str) -> Iterator[CodeTest]:
    if text.strip()[:1] in ("{", "["):
        try:
            yield from _tests(json.loads(text), entry_point)
        except ValueError:
            pass
        else:
            return
    try:
        tree = parse_python(text.strip())
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            test = _assertion(node.test)
            if test is not None:
                call = re.sub(r"\bcandidate\b", entry_point, test[0]) if entry_point else test[0]
                yield CodeTest(call=call, expected=test[1])


def _assertion(test: ast.expr) -> tuple[str, str] | None:
    """The call and the literal that an assertion compares; a bare call is compared with True."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, ast.Call):
        return ast.unparse(test.operand), "False"
    if isinstance(test, ast.Call):
        return ast.unparse(test), "True"
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Eq, ast.Is)):
        return None
    for call, literal in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
        if isinstance(call, ast.Call) and _is_literal(literal):
            return ast.unparse(call), ast.unparse(literal)
    return None


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _pairs(value: Mapping[str, Any]) -> Iterator[CodeTest]:
    """`{"input": …, "output": …}`, or lists of both under `inputs` and `outputs`."""
    if "call" in value and "expected" in value:
        yield CodeTest(call=str(value["call"]), expected=str(value["expected"]))
        return
    names = {name.lower(): name for name in value}
    given = next((value[names[name]] for name in ("inputs", "input", "stdin") if name in names), None)
    wanted = next((value[names[name]] for name in ("outputs", "output", "expected", "stdout") if name in names), None)
    if given is None or wanted is None:
        return
    several = isinstance(given, list) and isinstance(wanted, list)
    for one, other in zip(given, wanted, strict=False) if several else [(given, wanted)]:
        yield CodeTest(input=_as_text(one), expected=_as_text(other))


def _as_text(value: Any) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)
