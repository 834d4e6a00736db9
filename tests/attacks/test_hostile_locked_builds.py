"""A package without a wheel: its build runs in the sandbox, when it is locked and when it is installed."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from envwright.builds.resolve import resolve_tool_locks, resolved_lock
from envwright.builds.venv import venv_for
from envwright.system.workspace import CACHE_DIR, Workspace
from test_hostile_uv_settings import index

FILES = {
    "PKG-INFO": "Metadata-Version: 2.1\nName: envwright-attack-source\nVersion: 1.0\n",
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    '[project]\nname = "envwright-attack-source"\ndynamic = ["version", "dependencies"]\n',
    "backend.py": """
import json, os, zipfile
from pathlib import Path

def attempt(action):
    try:
        return str(action())
    except OSError as error:
        return type(error).__name__

users = Path({users!r})
seen = {{
    "read": attempt((users / "canary").read_text),
    "written": attempt(lambda: (users / "cache/planted").write_text("planted")),
    "variables": [name for name, value in os.environ.items() if "canary" in value],
}}

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    about = Path(metadata_directory, "envwright_attack_source-1.0.dist-info")
    about.mkdir()
    reached = seen["variables"] + [value for value in (seen["read"], seen["written"]) if value != "PermissionError"]
    needed = "".join(f"Requires-Dist: reached-{{number}}\\n" for number, _ in enumerate(reached))
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\\nName: envwright-attack-source\\nVersion: 1.0\\n" + needed
    )
    return about.name

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "envwright_attack_source-1.0-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory, name), "w") as archive:
        archive.writestr("envwright_attack_source.json", json.dumps(seen))
        about = "envwright_attack_source-1.0.dist-info"
        metadata = "Metadata-Version: 2.1\\nName: envwright-attack-source\\nVersion: 1.0\\n"
        archive.writestr(f"{{about}}/METADATA", metadata)
        archive.writestr(f"{{about}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(f"{{about}}/RECORD", "")
    return name
""",
}


def source_archive(users: Path) -> bytes:
    """A source distribution whose build attacks the folder of a user."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, text in FILES.items():
            body = (text.format(users=str(users)) if name == "backend.py" else text).encode()
            entry = tarfile.TarInfo(f"envwright_attack_source-1.0/{name}")
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return content.getvalue()


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[bytes]:
    """The hostile source distribution, at the index of a user who has a file and a key to steal."""
    users = tmp_path / "user"
    (users / "cache").mkdir(parents=True)
    (users / "canary").write_text("canary")
    made = source_archive(users)
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "shared"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(users / "cache"))
    monkeypatch.setenv("MODEL_KEY", "canary")
    for name in ("UV_CACHE_DIR", "UV_OFFLINE", "UV_INDEX", "UV_INDEX_URL", "UV_FIND_LINKS", "UV_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    with index(made, "envwright_attack_source-1.0.tar.gz") as server:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{server.url}/simple")
        yield made


def test_build_of_a_locked_package_reaches_no_file_and_no_key(archive: bytes, tmp_path: Path) -> None:
    lock = tmp_path / "checkout/environments/hostile/requirements.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(f"envwright-attack-source==1.0 --hash=sha256:{hashlib.sha256(archive).hexdigest()}\n")
    venv = venv_for(lock, Workspace(lock.parents[2]), threading.Event(), imported=False)
    seen = json.loads((venv.site_packages / "envwright_attack_source.json").read_text())
    assert seen == {"read": "PermissionError", "written": "PermissionError", "variables": []}


def test_build_of_a_required_package_reaches_no_file_and_no_key_when_it_is_locked(archive: bytes) -> None:
    lock = resolved_lock(["envwright-attack-source"], ">=3.11", threading.Event())
    assert "envwright-attack-source==1.0" in lock
    assert f"sha256:{hashlib.sha256(archive).hexdigest()}" in lock


@pytest.mark.slow
def test_extra_of_the_tool_that_needs_a_build_is_locked(
    archive: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    groups = "".join(f"{name} = []\n" for name in ("tests", "pages", "lint", "nox", "tinker"))
    extras = "prices = []\ninspect = []\nstore = []\ntrain = []\nprime = ['envwright-attack-source']\n"
    (tools / "pyproject.toml").write_text(
        "[project]\nname = 'envwright'\nversion = '1'\ndependencies = []\n"
        f"[project.optional-dependencies]\n{extras}[dependency-groups]\n{groups}"
    )
    monkeypatch.setattr("envwright.builds.resolve.TOOL_LOCKS", tmp_path)
    assert len(list(resolve_tool_locks(tools, threading.Event()))) == 11
    assert f"sha256:{hashlib.sha256(archive).hexdigest()}" in (tools / "requirements-prime.lock").read_text()
