"""`metrics.jsonl` of a run: one row for each finished step, which `envops watch` and `envops diagnose` read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envops.files.atomic_write import write_whole


class MetricsFile:
    """Rows are appended; those of steps after `done`, which are made anew, are dropped first."""

    def __init__(self, path: Path, done: int) -> None:
        self._path = path
        kept = [row for row in _rows(path) if row["step"] <= done]
        self.hours = max((float(row["hours"]) for row in kept if "hours" in row), default=0.0)
        """How long the run took so far."""
        write_whole(path, (_line(row) for row in kept))

    def add(self, step: int, values: Mapping[str, Any]) -> None:
        """File what is known of a step."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line({"step": step, **values}))


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row) + "\n"


def _rows(path: Path) -> list[dict[str, Any]]:
    """What can be read; a row that was cut off is none."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append(row)
    return rows
