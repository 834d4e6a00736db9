"""Canaries in every variable, file and descriptor of the host: an environment that looks for them finds none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from envwright_worker.sandbox import reason_against_sandbox
from thief import NOTHING, canary, without_rights, write_thief

pytestmark = [
    pytest.mark.worker,
    pytest.mark.skipif(
        bool(reason_against_sandbox()), reason="files are closed by the sandbox, which this kernel lacks"
    ),
]
TOOLS = Path(__file__).parents[2] / "tools"
CANARY = canary()
NEEDED = {"PATH", "HOME", "LANG", "TMPDIR", "ENVWRIGHT_CACHE_DIR", "VIRTUAL_ENV"}
"""Variables that a command needs to find its programs and its cache."""
PLANTED = (
    *("PRIME_API_KEY", "PRIME_TEAM_ID", "MODEL_KEY", "OPENAI_API_KEY", "HF_TOKEN", "WANDB_API_KEY", "GITHUB_TOKEN"),
    *("ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "PGPASS"),
    *(
        "DATABASE_URL",
        "APIKEY",
        "dsn",
        "ENVWRIGHT_ENDPOINT_KEY",
        "PYTEST_ADDOPTS",
        "CI_JOB_JWT",
        "GIT_ASKPASS",
        "EDITOR",
    ),
)


FILES = (
    *(".netrc", ".prime/config.json", ".cache/huggingface/token", ".ssh/id_ed25519", ".aws/credentials"),
    *(".config/gh/hosts.yml", ".pypirc", ".bash_history"),
)
"""In the home of the user."""
OF_THE_CHECKOUT = (".env", ".git/config", "environments/other/notes.txt", ".envwright/planted")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The report of a thief under a host that is full of canaries."""
    base = tmp_path_factory.mktemp("planted")
    root, home = base / "checkout", base / "home"
    files = [*(home / name for name in FILES), *(root / name for name in OF_THE_CHECKOUT)]
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as planted:
            planted.write(f"# {CANARY}\n")
    write_thief(root / "environments" / "thief", CANARY, *files)
    (root / "registry.yaml").write_text(
        "version: 1\nowner: acme\nenvironments:\n  thief: {secrets: [SEARCH_API_KEY]}\n"
    )
    variables = {name: value for name, value in os.environ.items() if name in NEEDED}
    variables |= {**dict.fromkeys(PLANTED, CANARY), "SEARCH_API_KEY": "harmless"}
    variables |= {"HOME": str(home), "PYTHONPATH": str(TOOLS)}
    reading, writing = os.pipe()
    os.write(writing, CANARY.encode())
    with files[0].open() as opened:
        done = subprocess.run(
            [sys.executable, "-m", "envwright", "schema", "thief", "--root", str(root), "--format", "json"],
            env=variables,
            pass_fds=(opened.fileno(), reading),
            preexec_fn=without_rights,
            capture_output=True,
            text=True,
        )
    os.close(reading)
    os.close(writing)
    assert CANARY not in done.stdout + done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def test_thief_in_a_command_finds_no_canary(report: dict[str, Any]) -> None:
    (environment,) = report["environments"]
    findings = json.dumps(environment["findings"])

    assert NOTHING in findings, findings
    assert "granted True" in findings
