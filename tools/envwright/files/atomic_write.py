"""Atomic writes: a reader sees the old content or the new one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from stat import S_IMODE


def write_whole(path: Path, content: str | bytes | Iterable[str]) -> None:
    """Write a file, text as UTF-8, atomically, so that an interruption never leaves a partial file.

    The content is written to a temporary file in the same folder, which is then renamed. A file that is
    replaced keeps its permissions; a missing folder is created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = S_IMODE(path.stat().st_mode) if path.exists() else 0o644
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in [content] if isinstance(content, str | bytes) else content:
                file.write(part if isinstance(part, bytes) else part.encode())
        unfinished.chmod(mode)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
