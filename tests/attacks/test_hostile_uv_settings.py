"""Packages whose `[tool.uv]` names another index or cache: uv reads none of it."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest
from envwright.builds.venv import VirtualEnvironment, venv_for
from envwright.system.subprocesses import ProgramFailed
from envwright.system.workspace import CACHE_DIR, Workspace
from loopback_server import Answer, LoopbackServer, serving

NAME = "envwright_attack_target-1.0-py3-none-any.whl"
Indexes = tuple[LoopbackServer, LoopbackServer]


def index(content: bytes, name: str = NAME) -> AbstractContextManager[LoopbackServer]:
    """A package index on loopback with one file, which remembers what it was asked for."""
    page = f'<a href="/{name}">{name}</a>'.encode()

    def answer(path: str) -> Answer:
        is_file = path == f"/{name}"
        return 200, {"Content-Type": "application/zip" if is_file else "text/html"}, content if is_file else page

    return serving(answer)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("wheel") / NAME
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("envwright_attack_target.py", "VALUE = 1\n")
        about = "envwright_attack_target-1.0.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: envwright-attack-target\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path.read_bytes()


@pytest.fixture
def indexes(wheel: bytes) -> Iterator[Indexes]:
    """The user's index, and a stranger's."""
    with index(wheel) as own, index(wheel) as strangers:
        yield own, strangers


@pytest.fixture
def lock(tmp_path: Path, wheel: bytes, indexes: Indexes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock beside a pyproject.toml with a stranger's settings of uv, while the user has an index of their own."""
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "users"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("UV_CACHE_DIR", raising=False)
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{indexes[0].url}/simple")
    for name in ("UV_OFFLINE", "UV_INDEX", "UV_INDEX_URL", "UV_FIND_LINKS", "UV_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    lock = tmp_path / "checkout/environments/hostile/requirements.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(f"envwright-attack-target==1.0 \\\n    --hash=sha256:{hashlib.sha256(wheel).hexdigest()}\n")
    stranger = f"{indexes[1].url}/simple"
    settings = f'index-url = "{stranger}"\nextra-index-url = ["{stranger}"]\ncache-dir = "./planted"\n'
    lock.with_name("pyproject.toml").write_text(f"[tool.uv]\n{settings}[tool.uv.pip]\nindex-url = '{stranger}'\n")
    (tmp_path / "checkout/uv.toml").write_text(settings)
    return lock


def installed(lock: Path) -> VirtualEnvironment:
    return venv_for(lock, Workspace(lock.parents[2]), threading.Event(), imported=False)


def test_index_of_a_package_is_never_queried(lock: Path, indexes: Indexes) -> None:
    venv = installed(lock)
    assert (venv.site_packages / "envwright_attack_target.py").is_file()
    assert indexes[0].asked
    assert indexes[1].asked == []


def test_cache_of_a_package_is_not_used(lock: Path) -> None:
    installed(lock)
    assert sorted(path.name for path in lock.parent.iterdir()) == ["pyproject.toml", "requirements.lock"]


OTHER = f"envwright-other==1.0 --hash=sha256:{64 * '0'}"


@pytest.mark.parametrize("hidden", ["-r other.txt", "--index-url {stranger}", OTHER])
def test_line_hidden_behind_a_carriage_return_is_not_installed(lock: Path, indexes: Indexes, hidden: str) -> None:
    lock.with_name("other.txt").write_text(f"{OTHER}\n")
    line = hidden.format(stranger=f"{indexes[1].url}/simple")
    lock.write_bytes(b"# a comment\r" + line.encode() + b"\n" + lock.read_bytes())
    with suppress(ProgramFailed):  # a lock with such a line may be refused
        installed(lock)
    assert not [path for path in indexes[0].asked if "other" in path]
    assert indexes[1].asked == []
