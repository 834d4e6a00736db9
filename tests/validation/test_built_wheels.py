"""Wheels as they are built from packages: complete, equal every time, and by code that sees no secret."""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from envwright.builds import wheel
from envwright.builds.preparation import PreparationFailed, prepare
from envwright.builds.venv import venv_for
from envwright.builds.wheel import built_wheel
from envwright.declarations.preparation import Preparation
from envwright.declarations.registry import EnvironmentEntry
from envwright.packages.read_package import read_package
from envwright.system.subprocesses import Interrupted, ProgramFailed
from sample_packages import write_package

if TYPE_CHECKING:
    from envwright.declarations.package import Package
    from envwright.facts.observed import Failure
    from envwright.system.workspace import Workspace

pytestmark = pytest.mark.worker

HOOKED = """
[tool.hatch.build.hooks.custom]
path = "hook.py"
"""


@pytest.fixture
def package(environments: Path) -> Package:
    files = {"module.py": "VALUE = 1\n", "plain/data.txt": "data\n", "tests/oracle.py": "", "README.md": "# plain\n"}
    return write_package(environments / "plain", "v1", files)


def build(package: Package, workspace: Workspace):
    return built_wheel(package, workspace, threading.Event())


def hooked(environments: Path, name: str, hook: str) -> Package:
    return write_package(environments / name, "v1", {"module.py": "", "hook.py": hook}, settings=HOOKED)


def failure(package: Package, workspace: Workspace) -> Failure:
    with pytest.raises(ProgramFailed) as caught:
        build(package, workspace)
    return caught.value.failure


def test_wheel_is_described_and_unpacked_with_bytecode(package: Package, workspace: Workspace):
    built = build(package, workspace)
    made, overlay = built.wheel, built.overlay
    assert made.filename == "plain-0.1.0-py3-none-any.whl"
    assert {"plain/__init__.py", "plain/data.txt"} <= set(made.files)
    assert not [name for name in made.files if name.startswith("tests")]
    assert any(text.startswith("verifiers") for text in made.requires)
    assert len(made.sha256) == 64
    assert (overlay / "plain" / "data.txt").read_text() == "data\n"
    assert list((overlay / "plain" / "__pycache__").glob("__init__.*.pyc"))


@pytest.mark.parametrize(
    ("requirement", "backend"),
    [
        ("uv_build>=0.9", "uv_build"),
        pytest.param("poetry-core>=2", "poetry.core.masonry.api", marks=pytest.mark.slow),
        pytest.param("flit_core>=3.11", "flit_core.buildapi", marks=pytest.mark.slow),
    ],
)
def test_wheel_is_built_by_a_backend_that_the_tool_lacks(
    requirement: str, backend: str, package: Package, workspace: Workspace
):
    project = (package.folder / "pyproject.toml").read_text().partition("[build-system]")[0]
    layout = "[tool.uv.build-backend]\nmodule-root = ''\n"
    table = f'[build-system]\nrequires = ["{requirement}"]\nbuild-backend = "{backend}"\n{layout}'
    (package.folder / "pyproject.toml").write_text(project + table)
    changed = read_package(package.folder, package.folder.parents[1]).package
    assert changed is not None
    assert "plain/__init__.py" in build(changed, workspace).wheel.files


def test_wheel_does_not_depend_on_time_place_or_permissions(package: Package, workspace: Workspace, fresh: Workspace):
    copy = fresh.root / "environments" / "plain"
    shutil.copytree(package.folder, copy)
    for path in copy.rglob("*.py"):
        os.utime(path, (10**9, 10**9))
        path.chmod(0o600)
    moved = read_package(copy, fresh.root).package
    assert moved is not None
    assert build(moved, fresh).wheel.sha256 == build(package, workspace).wheel.sha256


def test_build_writes_nothing_into_the_package(package: Package, fresh: Workspace):
    before = sorted(package.folder.rglob("*"))
    build(package, fresh)
    assert sorted(package.folder.rglob("*")) == before


def test_package_that_does_not_build_is_an_author_error(environments: Path, workspace: Workspace):
    found = failure(hooked(environments, "unbuildable", "raise ValueError('no wheel today')"), workspace)
    assert (found.kind, found.type) == ("raised", "BuildFailed")
    assert found.message.startswith("it ended with exit code 1:")
    assert "no wheel today" in found.message


@pytest.mark.slow
def test_wheels_built_in_parallel_are_all_complete(environments: Path, fresh: Workspace):
    packages = [write_package(environments / f"beside_{number}", "v1", {"module.py": ""}) for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda package: build(package, fresh).wheel.filename, packages))
    assert made == [f"beside_{number}-0.1.0-py3-none-any.whl" for number in range(4)]


def test_build_that_exceeds_its_limit_is_a_package_failure(
    environments: Path, fresh: Workspace, monkeypatch: pytest.MonkeyPatch
):
    venv_for(wheel.BUILD_LOCK, fresh, threading.Event())
    monkeypatch.setattr(wheel, "BUILD_SECONDS", 1)
    found = failure(hooked(environments, "takes_long", "import time\ntime.sleep(600)"), fresh)
    assert (found.kind, found.type, found.message) == ("raised", "BuildFailed", "it took longer than 1 s")


def test_build_ends_with_the_run(environments: Path, fresh: Workspace):
    venv_for(wheel.BUILD_LOCK, fresh, threading.Event())
    stop = threading.Event()
    stop.set()
    slow = hooked(environments, "is_slow", "import time\ntime.sleep(600)")
    with pytest.raises(Interrupted):
        built_wheel(slow, fresh, stop)


def test_build_without_the_required_sandbox_is_no_author_error(
    package: Package, fresh: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ENVWRIGHT_SANDBOX", "required")
    monkeypatch.setattr("envwright.builds.sandbox.reason_against_sandbox", lambda: "the kernel has no Landlock")
    found = failure(package, fresh)
    assert (found.kind, found.type) == ("infrastructure", "NoSandbox")
    assert found.message.startswith("a sandbox is required")


def test_preparation_by_a_package_that_does_not_build_is_an_author_error(environments: Path, workspace: Workspace):
    package = hooked(environments, "fetches", "raise ValueError('no wheel today')")
    entry = EnvironmentEntry("fetches", prepare=Preparation(command="python -m fetches.words"))
    with pytest.raises(PreparationFailed) as caught:
        prepare(entry, package, workspace, threading.Event())
    assert caught.value.problem.verdict == "fail"
    assert caught.value.problem.message.startswith("BuildFailed: it ended with exit code 1:")
