"""Every compiled script, run with the real uv and prime CLI, in a clean home, with another environment active."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dummy_trainers import make_environment, uv, wheel, write_checkout, write_environment, write_wheels
from emulator_client import publish
from envwright.packages.git import head_of
from envwright.packages.repository import Repository
from envwright.training.declared_runs import declared_runs
from envwright.training.preregistration import started_at
from envwright.training.trainers.launch_script import LIST_LOCKED
from envwright_emulator.server import EmulatedHub, emulator

REPOSITORY = Path(__file__).parents[2]
LOADED = Repository.load(REPOSITORY, with_locks=False)
RUNS = {run.spec.name: run for run in declared_runs(LOADED.registry, LOADED.packages)}
SCRIPTS = {
    name: run for name, run in RUNS.items() if run.compiled and any(path.endswith(".sh") for path in run.compiled.files)
}
OWN_ENVIRONMENT = ("tinker",)
"""Trainers that are packages: their runs have an environment of their own."""


@dataclass(frozen=True)
class Machine:
    """A clone, a checkout of the trainers, and the variables of a shell in which another environment is active."""

    root: Path
    checkout: Path
    other: Path
    variables: dict[str, str]

    def launch(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the compiled script of a run."""
        command = ["bash", f"configs/rl/{name}.sh", *arguments]
        return subprocess.run(
            command, cwd=self.root, env=self.variables, capture_output=True, text=True, check=False, timeout=300
        )

    def install(self, package: str) -> None:
        """Install a package of the trainer into its checkout's environment."""
        command = [uv(), "pip", "install", "--quiet", "--python", str(self.checkout / ".venv"), package]
        subprocess.run(command, env=self.variables, check=True)

    def commit(self, text: str = "declared") -> str:
        """Commit everything with this registry; the commit."""
        shutil.copy(REPOSITORY / ".gitignore", self.root)
        (self.root / "registry.yaml").write_text(text)
        author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "-q"], ["add", "-A", "."], [*author, "commit", "-qm", text]):
            subprocess.run(["git", *words], cwd=self.root, env=self.variables, check=True)
        return head_of(self.root)

    @property
    def recorded(self) -> Any:
        """The command that started the trainer."""
        return json.loads(Path(self.variables["RECORDED"]).read_text())


@pytest.fixture(scope="module")
def hub_with_wordle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedHub]:
    folder = tmp_path_factory.mktemp("hub")
    with emulator(folder / "state", teams=["primeintellect"]) as hub:
        for version in ("0.1.8", "0.1.9"):
            needed = "Requires-Dist: letters>=1\n"
            content = wheel(folder, "wordle", version, {"wordle.py": ""}, needed).read_bytes()
            publish(hub, "wordle", version, f"hash-{version}", "primeintellect", wheel=content, visibility="PUBLIC")
        yield hub


@pytest.fixture
def machine(tmp_path: Path, hub_with_wordle: EmulatedHub) -> Machine:
    root, home, programs = tmp_path / "clone", tmp_path / "home", tmp_path / "bin"
    shutil.copytree(REPOSITORY / "configs", root / "configs")
    for name in ("word-problems", "gsm8k", "meeting-time"):
        write_environment(root / "environments", name)
    for folder in (home, programs):
        folder.mkdir()
    for program in (uv(), str(Path(sys.executable).parent / "prime")):
        (programs / Path(program).name).symlink_to(program)
    write_wheels(tmp_path / "wheels")
    for version in ("1.0", "2.0"):
        wheel(tmp_path / "wheels", "letters", version, {"letters.py": ""})
    index = tmp_path / "index"
    index.mkdir()
    other = tmp_path / "other"
    variables = {
        "PATH": f"{other}/bin:{programs}:/usr/bin:/bin",
        "HOME": str(home),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_DEFAULT_INDEX": index.as_uri(),
        "UV_FIND_LINKS": str(tmp_path / "wheels"),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_PYTHON": sys.executable,
        "VIRTUAL_ENV": str(other),
        "RECORDED": str(tmp_path / "recorded.json"),
        "HUB_OF_TEST": hub_with_wordle.url,
        "PRIME_API_BASE_URL": hub_with_wordle.url,
        "PRIME_DISABLE_VERSION_CHECK": "1",
        "TINKER_API_KEY": "key-of-the-test",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    make_environment(other, variables)
    write_checkout(tmp_path / "checkout", variables)
    checkouts = dict.fromkeys(("PRIME_RL", "RLLM"), os.path.relpath(tmp_path / "checkout", root))
    return Machine(root, tmp_path / "checkout", other, variables | checkouts)


def test_scripts_cover_every_self_managed_trainer() -> None:
    without = {"prime", "trl"}
    assert {run.spec.backend for run in SCRIPTS.values()} == {run.spec.backend for run in RUNS.values()} - without


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_script_starts_trainer_in_its_own_environment(machine: Machine, name: str) -> None:
    before = sorted(path.name for path in machine.other.glob("lib/*/site-packages/*"))
    commit = machine.commit()
    done = machine.launch(name, "passed=on")
    assert done.returncode == 0, done.stdout + done.stderr
    assert started_at(machine.root / "outputs" / name) == (commit, ())
    run, recorded = SCRIPTS[name], machine.recorded
    own = run.spec.backend in OWN_ENVIRONMENT
    folder = machine.root / ".envwright" / "trainers" / name if own else machine.checkout
    assert Path(recorded["prefix"]).resolve() == (folder / ".venv").resolve()
    assert recorded["arguments"][-1] == "passed=on"
    for used in run.request.environments.values():
        assert recorded["packages"][used.name] == (used.version if used.external else "0.1.0")
    assert sorted(path.name for path in machine.other.glob("lib/*/site-packages/*")) == before
    assert not (machine.root / ".venv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, run in SCRIPTS.items() if run.spec.backend in OWN_ENVIRONMENT])
def test_script_started_again_keeps_its_environment(machine: Machine, name: str) -> None:
    assert machine.launch(name).returncode == 0
    marker = machine.root / ".envwright" / "trainers" / name / ".venv" / "kept"
    marker.touch()
    done = machine.launch(name)
    assert done.returncode == 0, done.stderr
    assert marker.exists()


@pytest.mark.slow
def test_script_started_again_keeps_the_commit_of_its_first_start(machine: Machine) -> None:
    folder = machine.root / "outputs" / "maths-lora"
    assert machine.launch("maths-lora").returncode == 0
    assert started_at(folder) == ("", ()), "there is no repository"
    commit = machine.commit()
    assert machine.launch("maths-lora", "--dry-run").returncode == 0
    assert started_at(folder) == ("", ()), "nothing is started"
    (machine.root / "registry.yaml").write_text("changed")
    assert machine.launch("maths-lora").returncode == 0
    assert started_at(folder) == (commit, ("registry.yaml",))
    folder.mkdir()  # as the trainer does
    later = machine.commit("later")
    for kept in (["--resume"], ["--clean", "--resume"]):
        assert machine.launch("maths-lora", *kept).returncode == 0
        assert started_at(folder) == (commit, ("registry.yaml",))
    assert machine.launch("maths-lora", "--clean").returncode == 0
    assert started_at(folder) == (later, ())


@pytest.mark.parametrize("name", ["maths-lora", "wordle-verl"])
def test_script_without_environment_of_checkout_names_the_fix(machine: Machine, name: str) -> None:
    shutil.rmtree(machine.checkout / ".venv")
    done = machine.launch(name)
    assert done.returncode == 2
    assert f"{machine.checkout}/.venv does not exist; in {machine.checkout} run: uv " in done.stderr
    assert not Path(machine.variables["RECORDED"]).exists()


def test_script_stops_if_environment_was_not_installed(machine: Machine) -> None:
    """`prime env install` exits with 0 also when the installation failed."""
    prime = machine.root.parent / "bin" / "prime"
    prime.unlink()
    prime.write_text("#!/bin/sh\nexit 0\n")
    prime.chmod(0o755)
    done = machine.launch("wordle-verl")
    assert done.returncode == 1
    assert "primeintellect/wordle@0.1.8 was not installed into" in done.stderr
    assert not Path(machine.variables["RECORDED"]).exists()


@pytest.mark.slow
def test_script_with_unmet_requirement_names_it_and_the_command_that_adds_it(machine: Machine) -> None:
    write_environment(machine.root / "environments", "word-problems", "letters>=1")
    done = machine.launch("maths-lora")
    assert done.returncode == 1
    assert "The package `word-problems` requires `letters>=1`, but it's not installed" in done.stderr
    assert not Path(machine.variables["RECORDED"]).exists()
    command = done.stderr.partition("missing packages: ")[2].splitlines()[0]
    subprocess.run(command, shell=True, cwd=machine.root, env=machine.variables, check=True)
    assert machine.launch("maths-lora").returncode == 0
    assert machine.recorded["packages"]["letters"] == "2.0"


@pytest.mark.slow
def test_script_with_other_requirement_than_the_trainer_keeps_the_trainer(machine: Machine) -> None:
    machine.install("letters==1.0")
    write_environment(machine.root / "environments", "word-problems", "letters>=2")
    done = machine.launch("maths-lora")
    assert done.returncode == 1
    assert "`word-problems` requires `letters>=2`, but `1.0` is installed" in done.stderr
    command = done.stderr.partition("missing packages: ")[2].splitlines()[0]
    subprocess.run(command, shell=True, cwd=machine.root, env=machine.variables, check=True)
    assert machine.launch("maths-lora").returncode == 1
    write_environment(machine.root / "environments", "word-problems", "letters")
    assert machine.launch("maths-lora").returncode == 0
    assert machine.recorded["packages"]["letters"] == "1.0"


def test_script_with_other_verifiers_of_the_trainer_reports_it_and_starts(machine: Machine) -> None:
    machine.install("verifiers==0.1.9.post3")
    write_environment(machine.root / "environments", "word-problems", "verifiers>=0.4")
    done = machine.launch("maths-lora")
    assert done.returncode == 0, done.stderr
    assert "`word-problems` requires `verifiers>=0.4`, but `0.1.9.post3` is installed" in done.stderr
    assert machine.recorded["packages"]["verifiers"] == "0.1.9.post3"


def test_script_with_environment_that_the_trainer_cannot_import_stops(machine: Machine) -> None:
    write_environment(machine.root / "environments", "word-problems", code="import a_later_verifiers")
    done = machine.launch("maths-lora")
    assert done.returncode == 1
    assert "No module named 'a_later_verifiers'" in done.stderr
    assert not Path(machine.variables["RECORDED"]).exists()


@pytest.mark.slow
@pytest.mark.parametrize(("locked", "installed"), [("", "2.0"), ("letters==1.0", "1.0")])
def test_script_with_package_of_the_hub_keeps_the_trainer(machine: Machine, locked: str, installed: str) -> None:
    if locked:
        machine.install(locked)
    for _start in range(2):
        done = machine.launch("wordle-verl")
        assert done.returncode == 0, done.stdout + done.stderr
        assert machine.recorded["packages"]["letters"] == installed


def test_environment_is_not_among_the_locked_packages_however_it_spells_its_name(tmp_path: Path) -> None:
    for name in ("Math.V_2", "torch"):
        wheel(tmp_path, name, "1.0", {})
    path = os.pathsep.join(map(str, tmp_path.glob("*.whl")))
    command = [sys.executable, "-S", "-c", LIST_LOCKED, "math-v-2"]
    done = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert done.stdout == "torch==1.0\n"


@pytest.mark.parametrize("name", ["wordle-tinker", "wordle-rllm-tinker"])
def test_script_without_key_of_tinker_stops_before_anything_is_installed(machine: Machine, name: str) -> None:
    del machine.variables["TINKER_API_KEY"]
    done = machine.launch(name)
    assert done.returncode != 0
    assert "TINKER_API_KEY: is not set" in done.stderr
    assert not (machine.root / ".envwright").exists()
