"""Reports that commands write beside what they print."""

from __future__ import annotations

import sys
from pathlib import Path

from envops.files.atomic_write import write_whole


def write_report(path: Path, text: str) -> None:
    """Write a report; that it cannot be written is said and changes no verdict."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        print(f"{path} could not be written: {error}", file=sys.stderr)
