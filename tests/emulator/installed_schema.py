"""The emulator's schema package, installed where the prime CLI keeps those of the platform."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

from envwright.training.hosted_checks import SCHEMA_CACHE
from envwright_emulator.training import WHEEL, stand_in_install


def install_schema(hub: Path, cache: Path) -> None:
    """Install it for this Python into the cache of the CLI, by its key (0.18.0, utils/training_compiler.py)."""
    install = stand_in_install(hub)
    key = hashlib.sha256(json.dumps({"install": install, "cache_version": 2}, sort_keys=True).encode()).hexdigest()
    target = cache / SCHEMA_CACHE / "prime" / "training-schemas" / key
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", target], check=True)
    [packages] = target.glob("lib/python*/site-packages")
    with zipfile.ZipFile(hub / "schema" / WHEEL) as wheel:
        wheel.extractall(packages)
    (target / ".ready").touch()
