"""Atomic writes: a reader sees the old content or the new content."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: Path, text: str | Iterable[str]) -> None:
    """Write to a temporary file and rename it, so that an interruption never leaves half a file."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    aside = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.writelines([text] if isinstance(text, str) else text)
        aside.chmod(0o644)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
