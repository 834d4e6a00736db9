"""Notes of what was asked of the platform and has no verdict yet, so that nobody asks a second time too early."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from envops.files.atomic_write import write_whole


@dataclass(frozen=True)
class Doubt:
    """One note, as a file; it holds for so many seconds from the asking."""

    note: Path
    seconds: float

    def begin(self, name: str) -> None:
        """Write it down before asking: a process that ends in between leaves the doubt behind."""
        now = time.time()
        write_whole(self.note, json.dumps({"name": name, "at": now, "until": now + self.seconds}))

    def end(self) -> None:
        """There is a verdict."""
        self.note.unlink(missing_ok=True)

    @property
    def holds(self) -> bool:
        """Whether what was asked may still come to be."""
        return self.note.exists() and time.time() < self.until

    @property
    def until(self) -> float:
        """When it is over, in seconds since 1970."""
        try:
            return float(json.loads(self.note.read_bytes())["until"])
        except FileNotFoundError:
            return 0.0
        except (ValueError, KeyError, TypeError):
            return self.note.stat().st_mtime + self.seconds  # cut off while it was written

    @property
    def hour(self) -> str:
        """When it is over, to be read."""
        return time.strftime("%H:%M:%S UTC", time.gmtime(self.until))
