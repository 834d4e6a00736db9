"""What one virtual environment compiled is the next one's, where it holds the same files, and nobody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from envops.observe.bytecode_store import CACHE_DIR, BytecodeStore, bytecode_store, users_folder
from envops.observe.compilers import Compilers
from envops.observe.compiling import compile_some
from envops.observe.venv import VirtualEnvironment, is_compiled, mark_compiled
from envops.observe.worker.known_modules import FILE
from envops.observe.workspace import Workspace

SOURCES = {
    "package/__init__.py": "from . import inner\n",
    "package/inner.py": "VALUE = 1\n",
    "single.py": "print((lambda: 0).__code__.co_filename, __cached__)\n",
}
LIST = json.dumps({"packages": ["package"], "modules": ["package.inner", "single"]})


def made_of(folder: Path, cache: Path) -> VirtualEnvironment:
    """A virtual environment of hard links into a cache, as uv makes them."""
    venv = VirtualEnvironment(folder)
    for name, text in SOURCES.items():
        source, path = cache / name, venv.site_packages / name
        for each in (source, path):
            each.parent.mkdir(parents=True, exist_ok=True)
        if not source.exists():
            source.write_text(text)
        path.hardlink_to(source)
    (folder / "bin").mkdir()
    venv.python.symlink_to(sys.executable)
    return venv


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """uv's."""
    return tmp_path / "uv"


@pytest.fixture
def first(tmp_path: Path, cache: Path) -> VirtualEnvironment:
    """One that has compiled all, and wrote down what an import of the first generation needed."""
    venv = made_of(tmp_path / "one/the-lock", cache)
    compile_some(venv, venv.site_packages, threading.Event(), {"all": True})
    (venv.folder / FILE.format(generation="v0")).write_text(LIST)
    return venv


@pytest.fixture
def second(tmp_path: Path, cache: Path) -> VirtualEnvironment:
    """Another checkout's, of the same lock."""
    return made_of(tmp_path / "two/the-lock", cache)


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
    tmp_path: Path, store: BytecodeStore, first: VirtualEnvironment, cache: Path
) -> None:
    other = made_of(tmp_path / "two/another-lock", cache)
    (other.site_packages / "single.py").unlink()
    (other.site_packages / "single.py").write_text("OTHER = 1\n")
    store.keep(first, "v0")
    assert not store.take(other, "v0")
    asked = {"modules": ["package", "single"], "beside": 1, "store": store.files}
    compile_some(other, other.site_packages, threading.Event(), asked)
    theirs, ours = bytecode_of(first), bytecode_of(other)
    assert {name for name in SOURCES if theirs[name] == ours[name]} == {"package/__init__.py", "package/inner.py"}


def test_what_is_compiled_beside_an_import_or_later_is_everybodys(
    tmp_path: Path, store: BytecodeStore, second: VirtualEnvironment, cache: Path
) -> None:
    asked = {"modules": ["single"], "beside": 1, "all": True, "store": store.files}
    compile_some(second, second.site_packages, threading.Event(), asked)
    third = made_of(tmp_path / "three/the-lock", cache)
    compile_some(third, third.site_packages, threading.Event(), asked)
    assert bytecode_of(second) == bytecode_of(third)
    assert len(bytecode_of(third)) == len(SOURCES)


def test_a_file_of_the_same_time_and_length_is_another_one(
    store: BytecodeStore, first: VirtualEnvironment, second: VirtualEnvironment
) -> None:
    changed = second.site_packages / "package/inner.py"
    before = changed.stat()
    store.keep(first, "v0")
    changed.write_text("VALUE = 2\n")
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (changed.stat().st_size, changed.stat().st_ino) == (before.st_size, before.st_ino)
    assert not store.take(second, "v0")
    assert "package/inner.py" not in bytecode_of(second)


def test_the_same_file_of_another_time_has_bytecode_of_its_own(
    store: BytecodeStore, first: VirtualEnvironment, second: VirtualEnvironment
) -> None:
    store.keep(first, "v0")
    os.utime(second.site_packages / "single.py", (1, 1))  # Python would not take what was compiled before
    assert not store.take(second, "v0")
    assert "single.py" not in bytecode_of(second)


def test_what_is_no_link_is_not_kept(tmp_path: Path, store: BytecodeStore, first: VirtualEnvironment) -> None:
    (tmp_path / "uv/single.py").unlink()
    store.keep(first, "v0")
    assert len(list(Path(store.files).rglob("*.pyc"))) == len(SOURCES) - 1


def test_where_some_was_pruned_the_rest_is_taken_and_not_all_is_there(
    store: BytecodeStore, first: VirtualEnvironment, second: VirtualEnvironment
) -> None:
    store.keep(first, "v0")
    next(store.folder.rglob("*.pyc")).unlink()
    assert not store.take(second, "v0")
    assert len(bytecode_of(second)) == len(SOURCES) - 1
    assert not (second.folder / FILE.format(generation="v0")).exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"packages": 1, "modules": []}',
        '{"packages": [1], "modules": []}',
        '{"packages": [], "modules": []}',
        '{"packages": [], "modules": ["..single", "a/b", ""]}',
    ],
)
def test_a_list_that_is_none_is_no_list(
    store: BytecodeStore, first: VirtualEnvironment, second: VirtualEnvironment, text: str
) -> None:
    store.keep(first, "v0")
    next(store.folder.rglob("*.json")).write_text(text)
    assert not store.take(second, "v0")
    assert not (second.folder / FILE.format(generation="v0")).exists()


def test_an_import_takes_it_for_its_own(
    store: BytecodeStore, first: VirtualEnvironment, second: VirtualEnvironment
) -> None:
    store.keep(first, "v0")
    assert store.take(second, "v0")
    copy = second.site_packages / "single.py"
    writing = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", "import single"]
    said = subprocess.run(command, cwd=copy.parent, env=writing, capture_output=True, text=True, check=True).stdout
    assert said.split() == [str(copy), cache_from_source(str(copy))]
    assert bytecode_of(second) == bytecode_of(first)  # or it would have written its own


def test_bytecode_of_what_a_file_said_before_is_not_kept(store: BytecodeStore, first: VirtualEnvironment) -> None:
    (first.site_packages / "single.py").write_text("print('something else')\n")
    store.keep(first, "v0")
    assert len(list(Path(store.files).rglob("*.pyc"))) == len(SOURCES) - 1


def test_many_may_keep_and_take_at_once(
    tmp_path: Path, store: BytecodeStore, first: VirtualEnvironment, cache: Path
) -> None:
    others = [made_of(tmp_path / f"{number}/the-lock", cache) for number in range(8)]

    def both(venv: VirtualEnvironment) -> None:
        store.keep(first, "v0")
        store.take(venv, "v0")
        store.keep(venv, "v0")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(both, others))
    assert all(bytecode_of(venv) == bytecode_of(first) for venv in others)
    assert len(list(store.folder.rglob("*.pyc"))) == len(SOURCES)


@pytest.mark.parametrize("by_an_earlier_version", [False, True])
def test_a_run_has_nothing_to_compile_that_another_checkout_compiled(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: VirtualEnvironment,
    second: VirtualEnvironment,
    *,
    by_an_earlier_version: bool,
) -> None:
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "users"))
    if by_an_earlier_version:
        mark_compiled(first.folder)
    with Compilers(Workspace(tmp_path / "one")) as compilers:
        compilers.imported(first, "v0")
    with Compilers(Workspace(tmp_path / "two")) as compilers:
        compilers.take(second, "v0")
    assert is_compiled(second.folder, "v0")


def test_a_folder_that_cannot_be_written_costs_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: VirtualEnvironment, second: VirtualEnvironment
) -> None:
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "users"))
    with Compilers(Workspace(tmp_path / "one")) as compilers:
        compilers.imported(first, "v0")
        (second.site_packages / "__pycache__").write_text("in the way")
        compilers.take(second, "v0")
    assert not is_compiled(second.folder, "v0")


def test_the_users_folder_is_where_programs_keep_such_things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_DIR, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert users_folder() == tmp_path / ".cache/envops"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert users_folder() == tmp_path / "xdg/envops"
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "told"))
    assert users_folder() == tmp_path / "told"
    monkeypatch.setenv(CACHE_DIR, "~/told")
    assert users_folder() == tmp_path / "told"


def test_where_nobody_knows_the_home_a_checkout_keeps_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_DIR, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as where there is neither HOME nor such a user
    assert users_folder() is None
    assert bytecode_store(Workspace(tmp_path)).folder == tmp_path / ".envops/bytecode"


def test_a_checkout_keeps_its_own_where_links_do_not_lead_to_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a-file").touch()
    with TemporaryDirectory(dir="/dev/shm") as on_another_disk:
        assert Path(on_another_disk).stat().st_dev != tmp_path.stat().st_dev
        for nowhere in (tmp_path / "a-file", Path("/proc/no-such-folder"), Path(on_another_disk)):
            monkeypatch.setenv(CACHE_DIR, str(nowhere))
            assert bytecode_store(Workspace(tmp_path)).folder == tmp_path / ".envops/bytecode"
