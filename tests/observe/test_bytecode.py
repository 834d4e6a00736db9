"""Bytecode of virtual environments: who makes it, what comes first, and that it is there whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from importlib.machinery import SourceFileLoader
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from envops.observe.bytecode_store import CACHE_DIR
from envops.observe.compilers import Compilers
from envops.observe.compiling import compile_some
from envops.observe.fork_server import ForkServer
from envops.observe.process import Confinement, StageFailed, WorkerProcess
from envops.observe.starting import BOOTSTRAP_OF_COMPILERS, WORKER_FOLDER
from envops.observe.subprocesses import ProgramFailed
from envops.observe.venv import VirtualEnvironment, is_compiled, venv_for
from envops.observe.wheel import BUILD_LOCK
from envops.observe.worker.bytecode import compile_below, compile_what_is_imported, kept_below
from envops.observe.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.worker
PATIENCE = 120.0
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
LARGE = "VALUES = {" + ", ".join(f"'name-{number}': {number}" for number in range(5_000)) + "}\n"


@pytest.fixture(autouse=True)
def users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other checkouts compiled is of no use here."""
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "users"))


@pytest.fixture
def bare(tmp_path: Path) -> VirtualEnvironment:
    """A virtual environment whose verifiers can be imported and is of no use."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    made = VirtualEnvironment(tmp_path / "venv")
    write(made.site_packages, "verifiers/__init__.py", "from . import inner\n")
    write(made.site_packages, "verifiers/inner.py", "")
    write(made.site_packages, "verifiers/v1.py", "")
    return made


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def compiled(folder: Path) -> set[str]:
    """Names of the files that have bytecode."""
    sources = folder.rglob("*.py")
    return {str(path.relative_to(folder)) for path in sources if Path(cache_from_source(str(path))).exists()}


def test_what_an_import_names_is_compiled_and_nothing_else(tmp_path: Path) -> None:
    files = {
        "first/__init__.py": "from .inner import (  # all\n    value,\n    module,\n)\nimport second as x, third\n",
        "first/inner/__init__.py": "from .. import sibling\nfrom ..cousin.child import x\n",
        "first/inner/module.py": "if True:\n    import unlikely\n",
        "first/sibling.py": "def late():\n    import unlikely\n",
        "first/cousin/__init__.py": "",
        "first/cousin/child.py": "",
        "first/unnamed.py": "",
        "second.py": "from os import path\n",
        "third/__init__.py": "",
        "unlikely.py": "",
    }
    for name, text in files.items():
        write(tmp_path, name, text)
    assert compile_what_is_imported(str(tmp_path), ["first"], 0, 1)
    assert compiled(tmp_path) == set(files) - {"first/unnamed.py", "unlikely.py"}


def test_an_import_takes_what_was_compiled_and_compiles_nothing_anew(tmp_path: Path) -> None:
    write(tmp_path, "package/__init__.py", "import sys\nVALUE = [__doc__, __file__, __cached__]\n")
    assert compile_below(str(tmp_path))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        patch.setattr(SourceFileLoader, "source_to_code", None)
        found = __import__("package").VALUE
    source = str(tmp_path / "package/__init__.py")
    assert found == [None, source, cache_from_source(source)]


def test_the_parts_of_several_processes_are_the_whole(tmp_path: Path) -> None:
    names = {f"module_{number}.py" for number in range(20)}
    for name in names:
        write(tmp_path, name, "")
    write(tmp_path, "all.py", "".join(f"import {name[:-3]}\n" for name in names))
    assert compile_what_is_imported(str(tmp_path), ["all"], 0, 2)
    half = compiled(tmp_path)
    assert compile_what_is_imported(str(tmp_path), ["all"], 1, 2)
    assert 0 < len(half) < 21
    assert compiled(tmp_path) == names | {"all.py"}


def test_nobody_ends_before_all_parts_are_compiled(tmp_path: Path, bare: VirtualEnvironment) -> None:
    names = {f"module_{number}.py" for number in range(60)}
    for name in names:
        write(tmp_path, f"library/{name}", "".join(f"def f{number}():\n    return {number}\n" for number in range(200)))
    write(tmp_path, "library/all.py", "".join(f"import {name[:-3]}\n" for name in names))
    compile_some(bare, tmp_path / "library", threading.Event(), {"modules": ["all"], "beside": 4})
    assert compiled(tmp_path / "library") == names | {"all.py"}


def test_imports_keep_bytecode_in_the_folder_alone_and_not_after_the_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("inside/kept_inside.py", "outside/kept_outside.py", "inside/kept_later.py"):
        write(tmp_path, name, "")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "inside"), str(tmp_path / "outside"), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with kept_below(str(tmp_path / "inside")):
        __import__("kept_inside")
        __import__("kept_outside")
    __import__("kept_later")
    assert compiled(tmp_path) == {"inside/kept_inside.py"}


def test_what_does_not_compile_stops_nothing(tmp_path: Path, bare: VirtualEnvironment) -> None:
    folder = tmp_path / "folder"
    for name, text in {"old.py": "print 'two'", "deep.py": "(" * 500, "nul.py": "\0", "good.py": "x = '\\d'"}.items():
        write(folder, name, text)
    compile_some(bare, folder, threading.Event(), {"all": True})
    assert compiled(folder) == {"good.py"}


def test_what_cannot_be_kept_as_bytecode_is_no_matter(tmp_path: Path, bare: VirtualEnvironment) -> None:
    folder = tmp_path / "folder"
    write(folder, "deep.py", f"f = {'lambda: ' * 1_200}0\n")
    write(folder, "good.py", "")
    compile_some(bare, folder, threading.Event(), {"all": True})
    assert compiled(folder) == {"good.py"}


def test_a_full_disk_leaves_no_half_of_a_file_and_is_said(tmp_path: Path, bare: VirtualEnvironment) -> None:
    folder = tmp_path / "folder"
    write(folder, "large.py", LARGE)
    write(folder, "small.py", "")
    question = json.dumps(
        {"folder": str(folder), "modules": ["large"], "beside": 1, "all": True, "idle": False, "store": ""}
    )
    command = [bare.python, "-I", "-c", LIMITED + BOOTSTRAP_OF_COMPILERS, WORKER_FOLDER]
    done = subprocess.run(command, input=question, text=True, capture_output=True)
    assert done.returncode == 1, done.stderr
    assert [path.name.partition(".")[0] for path in folder.glob("__pycache__/*")] == ["small"]


def test_a_server_keeps_what_it_compiled_and_a_worker_does_not(tmp_path: Path, bare: VirtualEnvironment) -> None:
    workspace = Workspace(tmp_path)
    with workspace.scratch() as scratch:
        arguments = (bare, tmp_path / "overlay", scratch, Confinement({}), threading.Event())
        with WorkerProcess(*arguments, ahead="v1") as worker, pytest.raises(StageFailed, match="no operation"):
            list(worker.request("nothing", PATIENCE))  # answered when it has imported
        assert compiled(bare.site_packages) == set()
    with workspace.scratch() as scratch, ForkServer(bare, "v1", 0, scratch) as server:
        assert server.refusal(threading.Event())
    assert compiled(bare.site_packages) == {"verifiers/__init__.py", "verifiers/inner.py", "verifiers/v1.py"}


@pytest.fixture
def uncompiled(tmp_path: Path) -> VirtualEnvironment:
    """One that was made without bytecode, as the environments' own are."""
    made = venv_for(BUILD_LOCK, Workspace(tmp_path), threading.Event(), compiled=False)
    assert compiled(made.site_packages) == set()
    assert not is_compiled(made.folder)
    return made


def children() -> Iterator[str]:
    for process in psutil.Process().children(recursive=True):
        yield " ".join(process.cmdline())


def test_a_run_compiles_in_the_background_and_remembers_that_it_did(
    tmp_path: Path, uncompiled: VirtualEnvironment
) -> None:
    deadline = time.monotonic() + PATIENCE
    with Compilers(Workspace(tmp_path)) as compilers:
        compilers.begin(uncompiled, "v1", served=True)
        compilers.calm.set()
        while not is_compiled(uncompiled.folder) and time.monotonic() < deadline:
            time.sleep(0.05)
    assert "build/__init__.py" in compiled(uncompiled.site_packages)
    assert "hatchling/build.py" in compiled(uncompiled.site_packages)


def test_what_no_import_needs_waits_until_nobody_waits_for_a_turn(
    tmp_path: Path, uncompiled: VirtualEnvironment
) -> None:
    with Compilers(Workspace(tmp_path)) as compilers:
        begun = compilers.begin(uncompiled, "v1", served=True)
        assert begun is not None
        begun.result(PATIENCE)
        time.sleep(0.5)
        assert compiled(uncompiled.site_packages) == set()
    assert not is_compiled(uncompiled.folder)


def test_a_run_that_ends_ends_its_compilers_and_the_next_goes_on(
    tmp_path: Path, uncompiled: VirtualEnvironment
) -> None:
    with Compilers(Workspace(tmp_path)) as compilers:
        compilers.begin(uncompiled, "v1", served=True)
    assert not is_compiled(uncompiled.folder)
    assert [line for line in children() if "bytecode" in line] == []
    compile_some(uncompiled, uncompiled.site_packages, threading.Event(), {"all": True})
    assert "hatchling/build.py" in compiled(uncompiled.site_packages)


def test_where_no_server_keeps_what_it_imports_it_is_imported_for_its_bytecode(
    tmp_path: Path, bare: VirtualEnvironment
) -> None:
    write(bare.site_packages, "verifiers/v1.py", "if True:\n    import beyond\n")
    beyond = write(bare.folder, "elsewhere/beyond.py", "")
    write(bare.site_packages, "elsewhere.pth", str(beyond.parent))
    deadline = time.monotonic() + PATIENCE
    with Compilers(Workspace(tmp_path)) as compilers:
        compilers.begin(bare, "v1", served=False)
        compilers.calm.set()
        while not is_compiled(bare.folder, "v1") and time.monotonic() < deadline:
            time.sleep(0.05)
    assert compiled(beyond.parent) == {"beyond.py"}


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, bare: VirtualEnvironment) -> None:
    folder = tmp_path / "folder"
    write(folder, "module.py", "")
    write(folder, "__pycache__", "in the way")
    with pytest.raises(ProgramFailed):
        compile_some(bare, folder, threading.Event(), {"all": True})
