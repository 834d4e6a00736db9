"""The comment on a pull request, rendered from the data of a report that may be hostile."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from envops.reports.markdown import render_markdown
from envops.reports.reading import read_report, result_of
from envops.repository.problem import DeclarationError, Problem
from envops.text.markdown import prose, table_cell

LARGEST = 20_000_000
"""Bytes of a file that is looked at."""
MOST_STEPS = 50
ACTIONS = ("create", "publish", "visibility", "unchanged", "conflict", "drift", "no-access", "unreadable", "not-asked")


def conversation(folder: Path, limit: int, run: str) -> str:
    """Markdown of at most `limit` bytes from a folder with validate.json and, perhaps, plan.json.

    Raises `DeclarationError` where there is no report or it is none.
    """
    plan = "".join(_plan(folder / "plan.json"))
    foot = f"\n[The workflow run]({run}) has all reports and evidence.\n"
    report = folder / "validate.json"
    if not report.is_file() and plan:
        return f"## Nothing to validate\n\n{plan}{foot}"
    result = result_of(read_report(_small(report)))
    return f"{render_markdown(result, limit - len((plan + foot).encode()))}\n{plan}{foot}"


def _plan(path: Path) -> Iterator[str]:
    steps = [step for step in _steps(path) if step["action"] != "unchanged"]
    if not steps:
        return
    yield "### What a merge would publish\n\n| | environment | version | why |\n|---|---|---|---|\n"
    for step in steps[:MOST_STEPS]:
        cells = (step["action"], table_cell(step["address"]), table_cell(step["version"]), prose(step["reason"]))
        yield f"| {' | '.join(cells)} |\n"
    if len(steps) > MOST_STEPS:
        yield f"\nand {len(steps) - MOST_STEPS} more\n"


def _steps(path: Path) -> Iterator[Mapping[str, str]]:
    """The plan's steps as far as they are what they should be."""
    if not path.is_file():
        return
    try:
        data: Any = json.loads(_small(path).read_bytes())
        rows = data["environments"]
        for row in rows:
            texts = {key: str(row[key])[:300] for key in ("action", "address", "version", "reason")}
            if texts["action"] in ACTIONS:
                yield texts
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DeclarationError([Problem(str(path), None, "was not written by `envops plan`")]) from None


def _small(path: Path) -> Path:
    if not path.is_file() or path.is_symlink():
        raise DeclarationError([Problem(str(path), None, "is not a file")])
    if path.stat().st_size > LARGEST:
        raise DeclarationError([Problem(str(path), None, f"is larger than {LARGEST:,} bytes")])
    return path
