"""Workers that import verifiers before the wheel of their environment is there: in all but time, they are fresh."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import psutil
import pytest
from envops.observe.early_worker import heeded_by_imports
from envops.observe.process import Confinement, StageFailed, WorkerProcess
from envops.observe.venv import VirtualEnvironment, venv_for
from sample_packages import EXEMPLARS, REPOSITORY, load, look_at, write_package
from test_forked_workers import V1, VIEW, view_of

if TYPE_CHECKING:
    from pathlib import Path

    from envops.observe.workspace import Workspace

pytestmark = pytest.mark.worker


@pytest.fixture(scope="module")
def venv(workspace: Workspace) -> VirtualEnvironment:
    lock = REPOSITORY / "environments" / EXEMPLARS["v1"] / "requirements.lock"
    return venv_for(lock, workspace, threading.Event())


def test_an_early_worker_becomes_what_a_fresh_one_is(
    tmp_path: Path, venv: VirtualEnvironment, workspace: Workspace
) -> None:
    overlay, late = tmp_path / "fresh", tmp_path / "late"
    overlay.mkdir()
    (overlay / "hostile.py").write_text(VIEW)
    fresh = view_of(overlay, venv, workspace, None)
    with (
        workspace.scratch() as scratch,
        WorkerProcess(venv, late, scratch, Confinement({}), threading.Event(), ahead="v1") as worker,
    ):
        with pytest.raises(StageFailed, match="no operation"):
            list(worker.request("nothing", 120))  # answered once verifiers is imported
        late.mkdir()
        (late / "hostile.py").write_text(VIEW)
        with pytest.raises(StageFailed, match="seen"):
            load(worker, late)
    early = json.loads((late / "view.json").read_text().replace(str(late), str(overlay)))
    for name, seen in fresh["modules"].items():
        assert early["modules"].get(name) == seen, name
    del early["modules"], fresh["modules"]
    assert early == fresh


def test_the_network_is_closed_to_early_workers(tmp_path: Path, venv: VirtualEnvironment, workspace: Workspace) -> None:
    (tmp_path / "hostile.py").write_text("import socket\nsocket.create_connection(('192.0.2.1', 80), timeout=1)\n")
    with (
        workspace.scratch() as scratch,
        WorkerProcess(venv, tmp_path, scratch, Confinement({}), threading.Event(), ahead="v1") as worker,
        pytest.raises(StageFailed) as caught,
    ):
        load(worker, tmp_path)
    assert caught.value.failure.kind == "network"


@pytest.mark.parametrize("name", ["sitecustomize.py", "pydantic", "json.py", "some-1.0.dist-info/entry_points.txt"])
def test_a_wheel_that_imports_would_heed_is_told(tmp_path: Path, venv: VirtualEnvironment, name: str) -> None:
    (tmp_path / "module_of_its_own").mkdir()
    assert not heeded_by_imports(tmp_path, venv)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert heeded_by_imports(tmp_path, venv)


def test_where_imports_heed_the_wheel_another_worker_takes_its_place(
    environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch
) -> None:
    files = {
        "module.py": V1.replace("import random\n", "import antigravity, random\n\nassert antigravity.OURS\n", 1),
        "antigravity.py": "OURS = True\n",
    }
    package = write_package(environments / "hiding_early", "v1", files, wheel_files=("antigravity.py",))
    seen = look_at(package, workspace, patch)
    assert seen.facts.failures == {}
    assert len(seen.workers) == 2


def test_an_early_worker_ends_where_the_wheel_is_not_built(
    environments: Path, workspace: Workspace, patch: pytest.MonkeyPatch
) -> None:
    package = write_package(
        environments / "unbuilt", "v1", {"module.py": V1}, settings="\n[tool.hatch.build.hooks.nonsense]\n"
    )
    seen = look_at(package, workspace, patch)
    assert "wheel" in seen.facts.failures
    assert len(seen.workers) == 1
    assert not psutil.pid_exists(seen.workers[0])
