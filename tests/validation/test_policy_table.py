"""The table of scripted policies: a policy is declared once, and everything else reads the table."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest
from envwright_worker.policies import POLICIES
from envwright_worker.policies.policy import BOUNDS

TOOLS = Path(__file__).parents[2] / "tools"
WORDS = {"equivalent"}
"""Names of policies that are also names of other things: a mutant can be equivalent to the code."""


@pytest.mark.slow
def test_policy_names_are_written_only_in_the_table() -> None:
    names = {each.name for each in POLICIES} - WORDS
    strays = [
        f"{path.relative_to(TOOLS)}:{node.lineno} {node.value}"
        for path in TOOLS.rglob("*.py")
        if not path.is_relative_to(TOOLS / "envwright_worker" / "policies") and "templates" not in path.parts
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert strays == []


def test_policies_import_only_the_standard_library() -> None:
    """The host imports them, and has none of an environment's packages."""
    own = ("envwright_worker.policies", "envwright_worker.messages", "envwright_worker.failures")
    strays = [
        f"{path.name}:{node.lineno} {name}"
        for path in [
            *(TOOLS / "envwright_worker" / "policies").glob("*.py"),
            TOOLS / "envwright_worker" / "messages.py",
        ]
        for node in ast.walk(ast.parse(path.read_bytes()))
        for name in _imported(node)
        if not name.startswith(own) and name.partition(".")[0] not in sys.stdlib_module_names
    ]
    assert strays == []


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [str(node.module)]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


@pytest.mark.parametrize("each", POLICIES, ids=lambda each: each.name)
def test_policy_is_documented(each: Any) -> None:
    assert each.description
    assert each.reply
    assert each.bound in BOUNDS
