"""What one virtual environment compiled is the next one's, where it holds the same files, and nobody else's."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from envops.observe.bytecode_store import VARIABLE, BytecodeStore, bytecode_store, users_folder
from envops.observe.compilers import Compilers
from envops.observe.compiling import compile_some
from envops.observe.venv import VirtualEnvironment, is_compiled
from envops.observe.worker.known_modules import FILE
from envops.observe.workspace import Workspace

SOURCES = {"package/__init__.py": "from . import inner\n", "package/inner.py": "VALUE = 1\n", "single.py": ""}
LIST = json.dumps({"packages": ["package"], "modules": ["package.inner", "single"]})


def made_of(folder: Path, others: VirtualEnvironment | None = None) -> VirtualEnvironment:
    """A virtual environment with these files, of its own or hard links of another one's."""
    venv = VirtualEnvironment(folder)
    for name, text in SOURCES.items():
        path = venv.site_packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if others is None:
            path.write_text(text)
        else:
            path.hardlink_to(others.site_packages / name)
    (folder / "bin").mkdir()
    venv.python.symlink_to(sys.executable)
    return venv


@pytest.fixture
def first(tmp_path: Path) -> VirtualEnvironment:
    """One that has compiled all, and wrote down what an import of the first generation needed."""
    venv = made_of(tmp_path / "one/the-lock")
    compile_some(venv, venv.site_packages, threading.Event(), {"all": True})
    (venv.folder / FILE.format(generation="v0")).write_text(LIST)
    return venv


@pytest.fixture
def second(tmp_path: Path, first: VirtualEnvironment) -> VirtualEnvironment:
    """Another checkout's, of the same lock."""
    return made_of(tmp_path / "two/the-lock", first)


@pytest.fixture
def store(tmp_path: Path) -> BytecodeStore:
    return BytecodeStore(tmp_path / "store")


def bytecode_of(venv: VirtualEnvironment) -> dict[str, int]:
    """The inode of each file's bytecode, where it has some."""
    places = {name: Path(cache_from_source(str(venv.site_packages / name))) for name in SOURCES}
    return {name: path.stat().st_ino for name, path in places.items() if path.exists()}


def test_another_checkout_takes_what_an_import_needed(
    store: BytecodeStore, first: VirtualEnvironment, second: VirtualEnvironment
) -> None:
    store.keep(first, "v0")
    assert store.take(second, "v0")
    assert bytecode_of(second) == bytecode_of(first)
    assert len(bytecode_of(first)) == len(SOURCES)
    assert (second.folder / FILE.format(generation="v0")).read_text() == LIST


def test_another_lock_takes_what_it_has_in_common(
    tmp_path: Path, store: BytecodeStore, first: VirtualEnvironment
) -> None:
    other = made_of(tmp_path / "two/another-lock", first)
    (other.site_packages / "single.py").unlink()
    (other.site_packages / "single.py").write_text("")
    store.keep(first, "v0")
    assert not store.take(other, "v0")
    assert set(bytecode_of(other)) == {"package/__init__.py", "package/inner.py"}


def test_a_file_that_was_changed_in_place_is_another_one(
    store: BytecodeStore, first: VirtualEnvironment, second: VirtualEnvironment
) -> None:
    store.keep(first, "v0")
    (second.site_packages / "package/inner.py").write_text("VALUE = 2\n")
    assert not store.take(second, "v0")
    assert "package/inner.py" not in bytecode_of(second)


def test_where_some_was_pruned_the_rest_is_taken_and_not_all_is_there(
    store: BytecodeStore, first: VirtualEnvironment, second: VirtualEnvironment
) -> None:
    store.keep(first, "v0")
    next(store.folder.rglob("*.pyc")).unlink()
    assert not store.take(second, "v0")
    assert len(bytecode_of(second)) == len(SOURCES) - 1
    assert not (second.folder / FILE.format(generation="v0")).exists()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"packages": 1, "modules": []}', '{"packages": [], "modules": ["..single", "a/b", ""]}']
)
def test_a_list_that_is_none_is_no_list(
    store: BytecodeStore, first: VirtualEnvironment, second: VirtualEnvironment, text: str
) -> None:
    store.keep(first, "v0")
    next(store.folder.rglob("*.json")).write_text(text)
    assert not store.take(second, "v0")
    assert bytecode_of(second) == bytecode_of(first)  # whatever is there for any file


def test_an_import_takes_it_for_its_own(tmp_path: Path, store: BytecodeStore, first: VirtualEnvironment) -> None:
    source = first.site_packages / "telling.py"
    source.write_text("print((lambda: 0).__code__.co_filename, __cached__)\n")
    compile_some(first, first.site_packages, threading.Event(), {"all": True})
    store.keep_all(first)
    other = VirtualEnvironment(tmp_path / "other")
    other.site_packages.mkdir(parents=True)
    copy = other.site_packages / "telling.py"
    copy.hardlink_to(source)
    store.take_all(other)
    before = Path(cache_from_source(str(copy))).stat().st_ino
    command = [sys.executable, "-c", "import telling"]
    said = subprocess.run(command, cwd=other.site_packages, capture_output=True, text=True, check=True).stdout
    assert said.split() == [str(copy), cache_from_source(str(copy))]
    assert Path(cache_from_source(str(copy))).stat().st_ino == before


def test_many_may_keep_and_take_at_once(tmp_path: Path, store: BytecodeStore, first: VirtualEnvironment) -> None:
    others = [made_of(tmp_path / f"{number}/the-lock", first) for number in range(8)]

    def both(venv: VirtualEnvironment) -> None:
        store.keep(first, "v0")
        store.take(venv, "v0")
        store.keep_all(venv)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(both, others))
    assert all(bytecode_of(venv) == bytecode_of(first) for venv in others)
    assert len(list(store.folder.rglob("*.pyc"))) == len(SOURCES)


def test_a_run_has_nothing_to_compile_that_another_checkout_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: VirtualEnvironment, second: VirtualEnvironment
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "users"))
    with Compilers(Workspace(tmp_path / "one")) as compilers:
        compilers.imported(first, "v0")
    with Compilers(Workspace(tmp_path / "two")) as compilers:
        compilers.take(second, "v0")
    assert is_compiled(second.folder, "v0")


def test_a_folder_that_cannot_be_written_costs_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: VirtualEnvironment, second: VirtualEnvironment
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "users"))
    with Compilers(Workspace(tmp_path / "one")) as compilers:
        compilers.imported(first, "v0")
        (second.site_packages / "__pycache__").write_text("in the way")
        compilers.take(second, "v0")
    assert not is_compiled(second.folder, "v0")


def test_the_users_folder_is_where_programs_keep_such_things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert users_folder() == tmp_path / ".cache/envops"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert users_folder() == tmp_path / "xdg/envops"
    monkeypatch.setenv(VARIABLE, str(tmp_path / "told"))
    assert users_folder() == tmp_path / "told"


def test_a_checkout_keeps_its_own_where_links_do_not_lead_to_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a-file").touch()
    with TemporaryDirectory(dir="/dev/shm") as on_another_disk:
        assert Path(on_another_disk).stat().st_dev != tmp_path.stat().st_dev
        for nowhere in (tmp_path / "a-file", Path("/proc/no-such-folder"), Path(on_another_disk)):
            monkeypatch.setenv(VARIABLE, str(nowhere))
            assert bytecode_store(Workspace(tmp_path)).folder == tmp_path / ".envops/bytecode"
