"""The choice of the kind of progress that suits a stream."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO

from envwright.reports.progress import PlainProgress, RunProgress


def open_progress(
    names: Iterable[str],
    *,
    quiet: bool = False,
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> RunProgress:
    """The kind of progress that suits the stream: nothing, plain lines, or a live table."""
    stream = stream or sys.stderr
    if quiet:
        return RunProgress(names)
    if not stream.isatty() or environ.get("TERM") in ("dumb", "unknown"):
        return PlainProgress(names, stream)
    from envwright.reports.live_progress import LiveProgress  # importing rich takes 0.1 s, and only this needs it

    return LiveProgress(names, stream, colour=not environ.get("NO_COLOR"))
