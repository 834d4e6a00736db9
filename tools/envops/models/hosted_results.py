"""Samples of an evaluation that the platform made, written as the files that verifiers leaves behind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from envops.facts.observed import Task


def write_samples(
    folder: Path, samples: Iterable[Mapping[str, Any]], tasks: Mapping[int, Task], about: Mapping[str, Any]
) -> None:
    """Write `results.jsonl` and `metadata.json`; `tasks` fill in prompts that the platform does not keep."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(_row(sample, tasks), default=str) for sample in samples]
    (folder / "results.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    (folder / "metadata.json").write_text(json.dumps(about, indent=2, default=str), "utf-8")


def _row(sample: Mapping[str, Any], tasks: Mapping[int, Task]) -> dict[str, Any]:
    """A sample as a row of verifiers': the platform spells some names in another way."""
    row = dict(sample)
    if "traces" in row or "nodes" in row:
        return row
    for name, other in (("example_id", "exampleId"), ("reward", "score")):
        if name not in row and other in row:
            row[name] = row[other]
    task = tasks.get(row["example_id"]) if isinstance(row.get("example_id"), int) else None
    if task is not None and not row.get("prompt"):
        row["prompt"] = list(task.prompt)
        row.setdefault("answer", task.data.get("answer"))
    return row
