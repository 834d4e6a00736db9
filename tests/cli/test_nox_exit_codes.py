"""nox exits with the code of the command that a session runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from envwright.builds.uv import uv_program

ROOT = Path(__file__).parents[2]
STUB = "import sys\n\nsys.exit(int(sys.argv[-1]) if sys.argv[-1].isdigit() else 0)\n"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The noxfile in a folder whose tool exits with the last argument, with one small package to install."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copy(ROOT / "noxfile.py", folder)
    (folder / "tools" / "envwright").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "requirements-nox.lock", folder / "tools")
    (folder / "tools" / "envwright" / "__main__.py").write_text(STUB)
    entry = re.search(r"^packaging==(?:.*\\\n)+.*\n", (ROOT / "tools/requirements.lock").read_text(), re.MULTILINE)
    assert entry is not None
    for part in ("", "-prices"):
        (folder / "tools" / f"requirements{part}.lock").write_text(entry[0])
    return folder


@pytest.fixture(scope="module")
def nox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The nox that CI uses, in a virtual environment of its own."""
    folder, lock = tmp_path_factory.mktemp("nox") / "venv", ROOT / "tools" / "requirements-nox.lock"
    made = [uv_program(), "venv", "--quiet", "-p", sys.executable, folder]
    subprocess.run(made, check=True)
    subprocess.run(
        [uv_program(), "pip", "sync", "--quiet", "--require-hashes", "-p", folder / "bin/python", lock], check=True
    )
    return folder / "bin" / "nox"


def code(nox: Path, checkout: Path, *arguments: str) -> int:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([nox, *arguments], cwd=checkout, env=environment, capture_output=True, text=True)
    assert "Session" in done.stderr + done.stdout  # nox itself ended as it does
    return done.returncode


@pytest.mark.parametrize("expected", [0, 3])
def test_session_exits_with_code_of_command(nox: Path, checkout: Path, expected: int) -> None:
    assert code(nox, checkout, "-s", "envwright", "--", "explain", str(expected)) == expected


def test_sessions_that_all_fail_alike_exit_with_their_code(nox: Path, checkout: Path) -> None:
    assert code(nox, checkout, "-s", "schema", "rewards", "--", "2") == 2
