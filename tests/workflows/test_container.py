"""The container and the devcontainer that is made from it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "tools" / "Containerfile"


def has_builder() -> bool:
    return (
        shutil.which("docker") is not None and subprocess.run(["docker", "info"], capture_output=True).returncode == 0
    )


def test_container_copies_files_that_exist_and_is_not_root() -> None:
    text = CONTAINERFILE.read_text("utf-8")
    copied = re.findall(r"^COPY (\S+)", text, re.MULTILINE)
    assert copied
    assert [path for path in copied if not (ROOT / path).exists()] == []
    assert re.findall(r"^USER (\d+)$", text, re.MULTILINE) == ["1000"], "Kubernetes needs the number"
    assert "HOME=/home/envwright" in text, "a user of another number has no home of its own"
    assert "chmod 1777 /home/envwright" in text


def test_container_has_no_lint() -> None:
    command = [Path(sys.executable).with_name("hadolint"), CONTAINERFILE]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_devcontainer_is_built_from_the_container() -> None:
    declared = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_bytes())["build"]
    assert (ROOT / ".devcontainer" / declared["dockerfile"]).resolve() == CONTAINERFILE
    assert (ROOT / ".devcontainer" / declared["context"]).resolve() == ROOT


@pytest.mark.slow
@pytest.mark.skipif(not has_builder(), reason="no container builder is running here")
def test_container_validates_an_environment() -> None:
    subprocess.run(["docker", "build", "--file", CONTAINERFILE, "--tag", "envwright-test", ROOT], check=True)
    run = ["docker", "run", "--rm", "--user", str(os.getuid()), "--volume", f"{ROOT}:/checkout", "envwright-test"]
    done = subprocess.run([*run, "schema", "reverse-text"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
