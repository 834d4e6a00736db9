"""Compiled configurations against the trainers whose packages our locks have; `nox -s trainers` checks the others."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from envwright.builds.venv import venv_for
from envwright.packages.repository import Repository
from envwright.system.workspace import Workspace
from envwright.training.declared_runs import declared_runs
from envwright.training.trainers import compile_run
from envwright.training.trainers.trainer import CompileRequest, environment_of

sys.path.append(str(Path(__file__).parent / "upstream"))

from checked_runs import arguments_of, drawn_of_v0, drawn_specs

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent


def python_with(group: str) -> Path:
    """The Python of a virtual environment of its own with the packages of a dependency group."""
    lock = ROOT / "tools" / f"requirements-{group}.lock"
    return venv_for(lock, Workspace(ROOT), threading.Event(), imported=False).python


@pytest.fixture(scope="module")
def repository() -> Repository:
    return Repository.load(ROOT)


def compiled(repository: Repository, backend: str) -> list[Mapping[str, str]]:
    """The files of drawn runs."""
    environments = {"wordle": environment_of("wordle", repository.registry, repository.packages)}
    return [compile_run(CompileRequest(spec, environments)).files for spec in drawn_of_v0(backend, 30)]


def test_generated_sound_runs_have_no_findings(repository: Repository) -> None:
    runs = declared_runs(repository.registry, repository.packages, list(drawn_specs(40, sound=True)))
    assert [finding for run in runs for finding in run.findings if finding.counts] == []


def refused(python: Path, script: str, files: Sequence[Path]) -> dict[str, str]:
    """What a trainer's own code refuses: file → error."""
    command = [python, HERE / "upstream" / script, "check", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {file: error for file, error in json.loads(done.stdout.splitlines()[-1]).items() if error}


def script_of(files: Mapping[str, str]) -> str:
    return next(text for name, text in files.items() if name.endswith(".sh"))


@pytest.mark.torch
def test_tinker_accepts_every_argument(repository: Repository, tmp_path: Path) -> None:
    python = python_with("tinker")
    sets = [arguments_of(script_of(files)) for files in compiled(repository, "tinker")]
    sets.append(arguments_of((ROOT / "configs" / "rl" / "wordle-tinker.sh").read_text()))
    files = [tmp_path / f"{number}.json" for number in range(len(sets))]
    for file, given_to in zip(files, sets, strict=True):
        file.write_text(json.dumps(given_to))
    assert refused(python, "in_tinker.py", files) == {}


@pytest.mark.torch
def test_trl_accepts_every_setting(repository: Repository, tmp_path: Path) -> None:
    files = [str(ROOT / "configs" / "rl" / "reverse-text-here.toml")]
    for number, compiled_files in enumerate(compiled(repository, "trl")):
        file = tmp_path / f"{number}.toml"
        file.write_text(next(iter(compiled_files.values())))
        files.append(str(file))
    assert refused(Path(sys.executable), "in_trl.py", [Path(file) for file in files]) == {}
