"""Makes a virtual environment with the envwright of this commit, and puts its programs on PATH for later steps.

The tool comes from the checkout that this action is part of, which GitHub makes outside of the workspace. Its
dependencies come from its locks, and plug-ins from a variable of the repository. Nothing of the workspace is read,
because it holds the pull request.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[3] / "tools"
PROGRAM = """#!{python}
from envwright.cli.main import run

run()
"""


def install(folder: Path, *, hub: bool, store: bool = False, plugins: str = "") -> Path:
    """Make the virtual environment, and return the folder of its programs.

    `plugins` are further requirements, a line each, with their hashes and without what they depend on.
    """
    uv = shutil.which("uv", path=sysconfig.get_path("scripts")) or "uv"
    parts = ["", "-prices", *(["-prime"] if hub else []), *(["-store"] if store else [])]
    locks = [TOOLS / f"requirements{part}.lock" for part in parts]
    if plugins.strip():
        locks.append(folder.with_name("plugins.txt"))
        locks[-1].write_text(f"{plugins.strip()}\n", encoding="utf-8")
    python = folder / "bin" / "python"
    synced = ["pip", "sync", "--quiet", "--require-hashes", "--compile-bytecode", "--python", str(python)]
    synced += ["--build-constraints", str(TOOLS / "requirements-nox.lock")]  # hashes of what a build needs, too
    for command in (
        ["venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
        [*synced, *map(str, locks)],
    ):
        subprocess.run([uv, "--no-config", *command], cwd=TOOLS, check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "envwright.pth").write_text(f"{TOOLS}\n", encoding="utf-8")
    program = python.parent / "envwright"
    program.write_text(PROGRAM.format(python=python), encoding="utf-8")
    program.chmod(0o755)
    return python.parent


if __name__ == "__main__":
    wanted = {"hub": os.environ["HUB"] == "true", "store": bool(os.environ.get("ENVWRIGHT_STORE"))}
    plugins = os.environ.get("ENVWRIGHT_PLUGINS", "")
    programs = install(Path(os.environ["RUNNER_TEMP"]) / "envwright", **wanted, plugins=plugins)
    with Path(os.environ["GITHUB_PATH"]).open("a", encoding="utf-8") as path:
        path.write(f"{programs}\n")
