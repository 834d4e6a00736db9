"""`rollouts_per_example`, the older name of `group_size`, in registry.yaml."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from envops.models.model_run import default_tasks
from envops.repository.document import parse_document
from envops.repository.older_keys import OlderName, with_first_names
from envops.repository.problem import DeclarationError
from envops.repository.read_package import read_package
from envops.repository.registry import load_registry, registry_of
from sample_repository import PYPROJECT, write_environment

REGISTRY = """\
version: 1
owner: acme
environments:
  sums: {}
runs:
  small:
    backend: prime
    model: acme/tiny
    max_steps: 100
    environments:
      - {id: sums, KEY: 4}
    eval: {environments: [{id: sums, KEY: 2}]}
    batch_size: 64
    KEY: 16
    overrides: {KEY: 3}
"""
OLDER, CURRENT = REGISTRY.replace("KEY", "rollouts_per_example"), REGISTRY.replace("KEY", "group_size")


def test_older_name_in_registry_is_read_as_group_size() -> None:
    older, current = (registry_of(parse_document(text, "registry.yaml")) for text in (OLDER, CURRENT))

    spec = older.specs["small"]
    assert (spec.group_size, spec.environments[0].group_size, spec.evaluated[0].group_size) == (16, 4, 2)
    assert spec.line("group_size") == current.specs["small"].line("group_size") == 14
    assert older.runs["small"]["group_size"] == 16
    assert older.runs["small"]["overrides"] == {"rollouts_per_example": 3}, "a trainer's own key keeps its name"


def test_older_name_in_registry_gives_one_note(tmp_path: Path) -> None:
    (tmp_path / "registry.yaml").write_text(OLDER)

    with pytest.warns(OlderName) as noted:
        load_registry(tmp_path)

    (note,) = (str(each.message) for each in noted)
    assert note == (
        "registry.yaml:11 runs.small.environments[0].rollouts_per_example: is the older name of group_size; "
        "write group_size (and 2 more)"
    )


def test_current_name_in_registry_gives_no_note(tmp_path: Path) -> None:
    (tmp_path / "registry.yaml").write_text(CURRENT)

    with warnings.catch_warnings():
        warnings.simplefilter("error", OlderName)
        load_registry(tmp_path)


def test_both_names_of_a_key_are_refused_with_both_lines() -> None:
    text = CURRENT.replace("    batch_size: 64\n", "    batch_size: 64\n    rollouts_per_example: 8\n")

    with pytest.raises(DeclarationError) as refused:
        registry_of(parse_document(text, "registry.yaml"))

    (problem,) = refused.value.problems
    assert (problem.line, problem.message) == (14, "is the older name of group_size, which is on line 15")
    assert problem.fix == "keep group_size"


@pytest.mark.parametrize("runs", ["[]", "3", "{a: 3, b: [rollouts_per_example], c: {environments: 3, eval: [1]}}"])
def test_malformed_runs_are_reported_as_before(runs: str) -> None:
    text = f"version: 1\nowner: acme\nenvironments: {{}}\nruns: {runs}\n"

    with pytest.raises(DeclarationError):
        registry_of(parse_document(text, "registry.yaml"))


def test_identity_of_a_run_is_the_same_under_both_names() -> None:
    older: dict[str, Any] = {"rollouts_per_example": 8, "environments": [{"id": "sums", "rollouts_per_example": 4}]}
    current: dict[str, Any] = {"group_size": 8, "environments": [{"id": "sums", "group_size": 4}]}

    assert with_first_names(current) == with_first_names(older) == older


@pytest.mark.parametrize("tasks", ["num_tasks", "num_examples"])
@pytest.mark.parametrize("rollouts", ["group_size", "num_rollouts", "rollouts_per_example"])
def test_size_that_a_package_declares_is_read_under_each_name(tmp_path: Path, tasks: str, rollouts: str) -> None:
    project = PYPROJECT.format(name="sums").partition("[tool.verifiers.eval]")[0]
    table = f"[tool.verifiers.eval]\n{tasks} = 7\n{rollouts} = 3\n"
    folder = write_environment(tmp_path, "sums", {"pyproject.toml": project + table})
    package = read_package(folder, tmp_path).package
    assert package is not None
    assert default_tasks(package) == (7, 3)
