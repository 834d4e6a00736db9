"""`envwright doctor` on machines that lack one thing or another."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from envwright.builds.machine import DOES
from envwright_emulator.server import emulator
from small_repository import ROOT, edit, small_repository

SECRET = "sk-not-to-be-shown-1234567890"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return small_repository(tmp_path / "repository", "reverse_text")


def doctor(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    home = root.parent / "home"
    home.mkdir(exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT / "tools"), **variables}
    command = [sys.executable, "-m", "envwright", "doctor", *arguments]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=60)


def checks(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


@pytest.mark.slow
def test_doctor_without_prime_and_keys_passes(repository: Path):
    done = doctor(repository)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "needed only for releases and hosted training" in done.stdout


@pytest.mark.slow
def test_doctor_reports_registry_mistake_with_line(repository: Path):
    edit(repository / "registry.yaml", "owner: acme\n", "ownr: acme\n")
    done = doctor(repository)
    assert done.returncode == 1
    assert "registry.yaml:2" in done.stdout


@pytest.mark.slow
def test_doctor_names_lock_command_for_stale_lock(repository: Path):
    edit(
        repository / "environments" / "reverse_text" / "pyproject.toml",
        '"verifiers>=0.4.0,<0.5"',
        '"verifiers>=0.4.0,<0.6"',
    )
    done = doctor(repository, "--format", "json")
    assert done.returncode == 1
    assert checks(done)["locks"]["do"] == "envwright lock reverse-text"


@pytest.mark.slow
def test_doctor_fix_removes_broken_virtual_environment(repository: Path):
    broken = repository.parent / "home" / ".cache" / "envwright" / "venvs" / "0123"
    broken.mkdir(parents=True)
    assert checks(doctor(repository, "--format", "json"))["venvs"]["repair"]
    assert broken.is_dir()
    assert checks(doctor(repository, "--fix", "--format", "json"))["venvs"]["level"] == "ok"
    assert not broken.exists()


@pytest.mark.slow
@pytest.mark.parametrize("job", ["train", "release"])
def test_doctor_for_a_job_without_key_fails_as_the_job_does(repository: Path, job: str):
    declare_hosted_run(repository)
    done = doctor(repository, "--for", job, "--format", "json")
    assert done.returncode == 1
    check = checks(done)["key"]
    assert (check["level"], check["found"]) == ("fail", f"nothing can be {DOES[job]}: no API key")
    assert "PRIME_API_KEY" in check["do"]


@pytest.mark.slow
def test_doctor_for_release_asks_the_platform_and_git(repository: Path, tmp_path: Path):
    with emulator(tmp_path / "hub", teams=["acme"]) as hub:
        done = doctor(repository, "--for", "release", "--format", "json", **hub.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        assert checks(done)["platform"]["found"] == "answers as rehearsal"
        (repository / "environments" / "reverse_text" / "notes.py").write_text("")
        reading = {**hub.environment, "PRIME_API_KEY": "emulated-key-read-only"}
        done = doctor(repository, "--for", "release", "--format", "json", **reading)
        assert done.returncode == 1
        assert {name for name, check in checks(done).items() if check["level"] == "fail"} == {"permission", "committed"}
        edit(repository / "registry.yaml", "owner: acme", "owner: strangers")
        done = doctor(repository, "--for", "release", "--format", "json", **hub.environment)
        assert checks(done)["owner"]["level"] == "fail"


@pytest.mark.parametrize("fault", ["GET /user/whoami status code=401", "GET /user/whoami reset times=always"])
def test_doctor_for_a_job_fails_where_the_platform_does(repository: Path, tmp_path: Path, fault: str):
    with emulator(tmp_path / "hub") as hub:
        hub.break_with(fault)
        done = doctor(repository, "--for", "release", "--format", "json", **hub.environment)
        assert done.returncode == 1
        assert checks(done)["platform"]["level"] == "fail"
        assert hub.key not in done.stdout


def declare_hosted_run(root: Path) -> None:
    run = "    backend: prime\n    model: Qwen/Qwen3-4B\n    environments: [{id: reverse-text}]\n    max_steps: 20\n"
    with (root / "registry.yaml").open("a") as registry:
        registry.write(f"runs:\n  first:\n{run}")


class Refusing(http.server.BaseHTTPRequestHandler):
    """An endpoint that requires a key, and records whether it got one."""

    keys: list[str | None]

    def do_GET(self) -> None:
        self.keys.append(self.headers.get("Authorization"))
        self.send_error(401)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint(repository: Path) -> Iterator[list[str | None]]:
    handler = type("Handler", (Refusing,), {"keys": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (repository / "configs").mkdir()
    (repository / "configs" / "endpoints.toml").write_text(
        '[[endpoint]]\nendpoint_id = "mini"\nmodel = "m"\nkey = "MINI_KEY"\n'
        f'url = "http://127.0.0.1:{server.server_port}/v1"\n'
    )
    yield handler.keys  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_doctor_probes_endpoint_without_its_key(repository: Path, endpoint: list[str | None]):
    found = checks(doctor(repository, "--format", "json", MINI_KEY=SECRET))["endpoint mini"]
    assert (found["level"], found["found"]) == ("ok", "MINI_KEY is set; HTTP 401")
    assert endpoint == [None]


@pytest.mark.slow
def test_doctor_names_missing_key(repository: Path, endpoint: list[str | None]):
    assert "MINI_KEY is not set" in doctor(repository).stdout
    assert endpoint == [None]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
def test_doctor_never_prints_keys(repository: Path, endpoint: list[str | None], form: str):
    config = repository.parent / "home" / ".prime" / "config.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"api_key": SECRET}))
    done = doctor(repository, "--format", form, MINI_KEY=SECRET, HF_TOKEN=SECRET)
    assert "~/.prime/config.json" in done.stdout
    assert SECRET not in done.stdout + done.stderr
    assert endpoint
