"""Atomic writes: a reader sees the old content or the new content."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def write_whole(path: Path, content: str | bytes | Iterable[str]) -> None:
    """Write to a temporary file and rename it, so that an interruption never leaves half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    aside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in [content] if isinstance(content, str | bytes) else content:
                file.write(part if isinstance(part, bytes) else part.encode())
        aside.chmod(0o644)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
