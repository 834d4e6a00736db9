"""A trainer is one module and one name among the values of `backend`; everything else reads the table."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from envwright.declarations.run import Backend, run_spec
from envwright.training.trainers import TRAINERS, compile_run
from envwright.training.trainers.trainer import CompileRequest, Environment, value_at

REPOSITORY = Path(__file__).parents[2]
TOOLS = REPOSITORY / "tools"
NAMES = {name for trainer in TRAINERS.values() for name in (trainer.limits.name, *trainer.aliases)}
OTHER_MEANINGS = {"prime", "trl", "local"}
"""Also the Hub's CLI, a package that is imported, and a part of a version."""
GROUPS_OF_DEPENDENCIES = TOOLS / "envwright" / "builds" / "resolve.py"
"""Names the dependency groups of the tool's own tests, some of which are called like what they install."""


def test_registry_names_exactly_the_trainers() -> None:
    assert set(get_args(Backend)) == NAMES


def test_compiled_cookbook_is_the_one_that_is_locked_for_the_check() -> None:
    lock = (TOOLS / "requirements-tinker.lock").read_text(encoding="utf-8")
    script = (REPOSITORY / "configs" / "rl" / "wordle-tinker.sh").read_text(encoding="utf-8")
    [version] = re.findall(r"^tinker-cookbook==(\S+)", lock, re.MULTILINE)
    assert f"'tinker-cookbook[verifiers]=={version}'" in script


@pytest.mark.parametrize(
    ("backend", "setting"),
    [
        ("rllm-tinker", "rllm.trainer.save_freq"),
        ("tinker", "save_every"),
    ],
)
@pytest.mark.parametrize(("checkpoints", "saved"), [(None, 60), ({"keep": 2}, 60), ({"interval": 20}, 20)])
def test_compiled_run_saves_its_last_step(backend: str, setting: str, checkpoints: Any, saved: int) -> None:
    declared = {"backend": backend, "model": "Qwen/Qwen3-8B", "environments": [{"id": "sums"}], "max_steps": 60}
    declared |= {"checkpoints": checkpoints} if checkpoints else {}
    spec = run_spec("first", declared, {}, "registry.yaml")
    environment = Environment("sums", "sums", "acme/sums", "0.1.0", "v0")
    compiled = compile_run(CompileRequest(spec, {"sums": environment}))
    assert value_at(compiled.native.values, setting) == saved


@pytest.mark.slow
def test_trainers_are_named_in_no_other_module() -> None:
    found = [
        f"{path.relative_to(TOOLS)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted(TOOLS.glob("envwright*/**/*.py"))
        if TOOLS / "envwright" / "training" / "trainers" not in path.parents and path != GROUPS_OF_DEPENDENCIES
        for statement in ast.parse(path.read_bytes()).body
        if not _declares_backend(statement)
        for node in ast.walk(statement)
        if _names_a_trainer(node)
    ]
    assert found == []


def _declares_backend(statement: ast.stmt) -> bool:
    """Whether this is the declaration of the values of `backend`."""
    return isinstance(statement, ast.Assign) and [_name(target) for target in statement.targets] == ["Backend"]


def _names_a_trainer(node: ast.AST) -> bool:
    """A trainer's name as text; names that mean something else too only where they are compared with a backend."""
    if isinstance(node, ast.Compare):
        parts = {part for child in (node.left, *node.comparators) for part in ast.walk(child)}
        values = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
        return bool(values & NAMES) and any("backend" in _name(part) for part in parts)
    return isinstance(node, ast.Constant) and node.value in NAMES - OTHER_MEANINGS


def _name(node: ast.AST) -> str:
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""
