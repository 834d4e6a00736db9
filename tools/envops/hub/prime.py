"""The prime CLI on this machine: where it is, and which Python holds it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

OLDEST_PRIME = "0.13.0"
"""The first whose hosted training takes the configs that are written here; `env push --runtime` is older."""
TESTED_PRIME = "0.18.0"
INSTALL = f"nox installs it (nox -s plan); by hand: uv tool install prime=={TESTED_PRIME}"


@dataclass(frozen=True)
class Prime:
    """A prime CLI: its program, and the interpreter that can import it."""

    program: Path
    python: Path


def find_prime(search: str | None = None) -> Prime | None:
    """The prime beside our own Python, or else the first on the path; `None` where there is neither."""
    beside = Path(sys.executable).parent / "prime"
    found = str(beside) if search is None and os.access(beside, os.X_OK) else shutil.which("prime", path=search)
    if found is None:
        return None
    program = Path(found)
    return Prime(program, _interpreter(program))


def _interpreter(program: Path) -> Path:
    """The Python that a console script runs in, by its first lines (pip's long form included)."""
    try:
        head = program.read_bytes()[:2_000].decode("utf-8", "replace")
    except OSError:
        head = ""
    named = re.match(r"#!\s*(/[^\n]*python[\d.]*)\s*\n", head) or re.search(
        r"exec['\" ]+(/[^'\"\n]*python[\d.]*)", head
    )
    candidates = [Path(named[1])] if named else []
    candidates.append(program.resolve().parent / "python")
    return next((path for path in candidates if os.access(path, os.X_OK)), Path(sys.executable))
