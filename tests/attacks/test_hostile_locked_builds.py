"""A locked package without a wheel: its build runs in the sandbox, without the user's files and keys."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from pathlib import Path

import pytest
from envops.repository.workspace import CACHE_DIR, Workspace
from envops.validation.venv import venv_for
from test_hostile_uv_settings import Index

FILES = {
    "PKG-INFO": "Metadata-Version: 2.1\nName: envops-attack-source\nVersion: 1.0\n",
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    '[project]\nname = "envops-attack-source"\nversion = "1.0"\n',
    "backend.py": """
import json, os, zipfile
from pathlib import Path

def attempt(action):
    try:
        return str(action())
    except OSError as error:
        return type(error).__name__

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    users = Path({users!r})
    seen = {{
        "read": attempt((users / "canary").read_text),
        "written": attempt(lambda: (users / "cache/planted").write_text("planted")),
        "variables": [name for name, value in os.environ.items() if "canary" in value],
    }}
    name = "envops_attack_source-1.0-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory, name), "w") as archive:
        archive.writestr("envops_attack_source.json", json.dumps(seen))
        about = "envops_attack_source-1.0.dist-info"
        archive.writestr(f"{{about}}/METADATA", "Metadata-Version: 2.1\\nName: envops-attack-source\\nVersion: 1.0\\n")
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
            entry = tarfile.TarInfo(f"envops_attack_source-1.0/{name}")
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return content.getvalue()


def test_build_of_a_locked_package_reaches_no_file_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = tmp_path / "user"
    (users / "cache").mkdir(parents=True)
    (users / "canary").write_text("canary")
    archive = source_archive(users)
    index = Index(archive, "envops_attack_source-1.0.tar.gz")
    monkeypatch.setenv(CACHE_DIR, str(tmp_path / "shared"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(users / "cache"))
    monkeypatch.setenv("MODEL_KEY", "canary")
    monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
    for name in ("UV_CACHE_DIR", "UV_OFFLINE", "UV_INDEX", "UV_INDEX_URL", "UV_FIND_LINKS", "UV_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    lock = tmp_path / "checkout/environments/hostile/requirements.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text(f"envops-attack-source==1.0 --hash=sha256:{hashlib.sha256(archive).hexdigest()}\n")
    try:
        venv = venv_for(lock, Workspace(lock.parents[2]), threading.Event(), imported=False)
    finally:
        index.server.shutdown()
        index.server.server_close()
    seen = json.loads((venv.site_packages / "envops_attack_source.json").read_text())
    assert seen == {"read": "PermissionError", "written": "PermissionError", "variables": []}
