"""A trainer is one module and one name among the values of `backend`; everything else reads the table."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest
from envwright.declarations.run import Backend, run_spec
from envwright.training.trainers import TRAINERS, compile_run
from envwright.training.trainers.trainer import CompileRequest, Environment, value_at
from small_repository import envwright

REPOSITORY = Path(__file__).parents[2]
TOOLS = REPOSITORY / "tools"
NAMES = {name for trainer in TRAINERS.values() for name in (trainer.limits.name, *trainer.aliases)}
OTHER_MEANINGS = {"prime", "trl", "local"}
"""Also the Hub's CLI, a package that is imported, and a part of a version."""
GROUPS_OF_DEPENDENCIES = TOOLS / "envwright" / "builds" / "resolve.py"
"""Names the dependency groups of the tool's own tests, some of which are called like what they install."""
MADE_UP = '''\
"""A made-up trainer."""

from envwright.rules.runs.subject import RefusedSetting, TrainerLimits
from envwright.training.trainers.native_config import NativeConfig, origin, toml_text
from envwright.training.trainers.trainer import (
    Compiled,
    Trainer,
    file_path,
    heading,
    settings_at,
    units,
    with_overrides,
)

LIMITS = TrainerLimits("made-up", "Made Up", ("v1",), ("0.4.0",), "0.4.0", "rollouts", "either", ("grpo",), "nowhere",
                       models={"acme/known": "plain"})


def _compile(request):
    config = NativeConfig()
    config.put("steps", request.spec.max_steps, origin(request.spec, "max_steps"))
    config.put("batch", request.spec.batch_size, origin(request.spec, "batch_size"))
    path = file_path(request, "toml")
    text = toml_text(with_overrides(config, request.spec), heading(request, LIMITS.title, path))
    return Compiled({path: text}, ("made-up", path), config, units=units(request))


def _refusals(spec, native, settings):
    if native.get("steps", 0) > 9:
        yield RefusedSetting("combination", "max_steps", f"{native['steps']} steps are more than nine")


TRAINER = Trainer(LIMITS, "hand", _compile, settings_at({"batch": "batch"}, LIMITS), _refusals,
                  {"reward": ("money/earned",)})
'''
REGISTRY = """\
version: 1
owner: acme
environments:
  sums: {hub: acme/sums@0.1.0, generation: v1}
runs:
  first:
    backend: made-up
    model: acme/unknown
    environments: [{id: sums}]
    max_steps: 20
    batch_size: 100
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose tool has one more trainer: a file, and a name in a line."""
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(TOOLS, root / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "tools" / "envwright" / "training" / "trainers" / "made_up.py").write_text(MADE_UP)
    keys = root / "tools" / "envwright" / "declarations" / "run.py"
    text = keys.read_text(encoding="utf-8")
    assert text.count(', "local"]') == 1
    keys.write_text(text.replace(', "local"]', ', "local", "made-up"]'), encoding="utf-8")
    (root / "registry.yaml").write_text(REGISTRY)
    (root / "docs").mkdir()
    shutil.copy(REPOSITORY / "docs" / "training.md", root / "docs")
    return root


def with_added(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return envwright(checkout, *arguments, PYTHONPATH=str(checkout / "tools"))


@pytest.mark.slow
def test_added_trainer_is_compiled_and_judged(checkout: Path) -> None:
    done = with_added(checkout, "train", "compile", "--format", "json")
    assert done.returncode == 1, done.stderr
    compiled = (checkout / "configs" / "rl" / "first.toml").read_text()
    assert "Run first for Made Up" in compiled
    assert "steps = 20" in compiled
    [run] = json.loads(done.stdout)["runs"]
    found = {finding["rule"]: finding["message"] for finding in run["findings"]}
    assert "20 steps are more than nine" in found["RUN014"]
    assert "made-up is not known to support the model acme/unknown" in found["RUN003"]
    assert "100 rollouts per step are not a multiple of the group size 8" in found["RUN020"]


@pytest.mark.slow
def test_added_trainer_has_its_metrics_read(checkout: Path) -> None:
    metrics = checkout / "metrics.jsonl"
    metrics.write_text("".join(f'{{"step": {step}, "money/earned": 0.0}}\n' for step in range(40)))
    done = with_added(checkout, "diagnose", str(metrics), "--format", "json")
    report = json.loads(done.stdout)
    assert [curve["metric"] for curve in report["curves"]] == ["reward"]
    assert [finding["rule"] for finding in report["findings"]] == ["DGN001"]


@pytest.mark.slow
def test_added_trainer_is_in_the_documented_matrix(checkout: Path) -> None:
    done = with_added(checkout, "docs")
    assert done.returncode == 0, done.stderr
    page = (checkout / "docs" / "training.md").read_text(encoding="utf-8")
    assert "| `made-up` | Made Up | v1 | 0.4.0 | rollouts | no | hand |" in page


def test_registry_names_exactly_the_trainers() -> None:
    assert set(get_args(Backend)) == NAMES


def test_compiled_cookbook_is_the_one_that_is_locked_for_the_check() -> None:
    lock = (TOOLS / "requirements-tinker.lock").read_text(encoding="utf-8")
    script = (REPOSITORY / "configs" / "rl" / "wordle-tinker.sh").read_text(encoding="utf-8")
    [version] = re.findall(r"^tinker-cookbook==(\S+)", lock, re.MULTILINE)
    assert f"'tinker-cookbook[verifiers]=={version}'" in script


@pytest.mark.parametrize("name", TRAINERS)
def test_trainer_names_what_is_kept_and_how_long(name: str) -> None:
    assert any(word in TRAINERS[name].keeps for word in ("until", "kept", "expiry"))


@pytest.mark.parametrize(
    ("backend", "setting"),
    [
        ("rllm-verl", "trainer.save_freq"),
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
