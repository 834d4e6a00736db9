"""From an empty folder to a validated environment: `init`, `adopt` and `validate` of an installed wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
ADOPTED = "reverse_text"
HIDDEN = frozenset({"PYTHONPATH", "VIRTUAL_ENV", "ENVWRIGHT_CACHE_DIR", "ENVWRIGHT_STARTED_BY"})
"""Variables with which a command would not run as it does for a team."""
COMMANDS = (("init", "--owner", "acme", "--tool", "our-team/envwright@v0"), ("adopt", f"../{ADOPTED}"), ("validate",))


def seconds_of_commands() -> dict[str, float]:
    """Wall time of each command, in a home of its own; uv's cache is that of the user.

    Raises `SystemExit` where one of them fails.
    """
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    cache = subprocess.run([uv, "cache", "dir"], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="envwright-starting-") as name:
        folder = Path(name)
        programs = folder / "venv/bin"
        for part in ("home", "wheels", "repository"):
            (folder / part).mkdir()
        environment = {name: value for name, value in os.environ.items() if name not in HIDDEN}
        environment |= {"HOME": str(folder / "home"), "UV_CACHE_DIR": cache}
        environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
        subprocess.run([uv, "build", "-q", "--wheel", "-o", folder / "wheels", ROOT / "tools"], check=True)
        subprocess.run([uv, "venv", "-q", "-p", sys.executable, folder / "venv"], check=True)
        (wheel,) = (folder / "wheels").glob("*.whl")
        subprocess.run([uv, "pip", "install", "-q", "-p", programs / "python", wheel], check=True)
        left_out = shutil.ignore_patterns("requirements.lock", "recordings", "__pycache__")
        shutil.copytree(ROOT / "environments" / ADOPTED, folder / ADOPTED, ignore=left_out)
        return {command[0]: _seconds(command, folder / "repository", environment) for command in COMMANDS}


def _seconds(command: tuple[str, ...], folder: Path, environment: dict[str, str]) -> float:
    started = time.perf_counter()
    call = ["envwright", *command]
    done = subprocess.run(
        call, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(call)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - started


if __name__ == "__main__":
    measured = seconds_of_commands()
    print({name: round(seconds, 1) for name, seconds in measured.items()}, f"{sum(measured.values()):.1f} s")
