"""reports/validate.html, made from what lies beside it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from envops.report.before_after import read_comparisons
from envops.report.run_report import read_runs

PAGE = "validate.html"


def page_of(report: dict[str, Any], folder: Path) -> str:
    """The page of a report's data, with the reward diff, comparisons and runs that lie in the folder of reports."""
    from envops.report.html.page import render_page

    runs, unreadable = read_runs(folder)
    compared = read_comparisons(folder, {one["name"]: one["digest"] for one in report["environments"]})
    return render_page(report, read_diff(folder / "reward-diff.json", report), runs, unreadable, compared)


def write_page(folder: Path) -> Path:
    """Write the page anew from validate.json and what lies beside it.

    Raises `DeclarationError` where there is no validate.json that can be read.
    """
    from envops.report.reading import read_report
    from envops.report.written import write_whole

    write_whole(folder / PAGE, page_of(read_report(folder / "validate.json"), folder))
    return folder / PAGE


def refresh_page(folder: Path) -> None:
    """Write the page anew after something beside validate.json changed; where that is not there, there is no page."""
    from envops.declare.problem import DeclarationError

    with suppress(DeclarationError, OSError):
        write_page(folder)


def read_diff(path: Path, report: dict[str, Any]) -> dict[str, Any] | None:
    """The reward diff beside a report, as far as it speaks of the same packages; `None` where it does not."""
    try:
        data = json.loads(path.read_bytes())
        digests = {one["name"]: one["digest"] for one in report["environments"]}
        same = [
            one
            for one in data["environments"]
            if one["name"] in digests and one.get("head", {}).get("digest") == digests[one["name"]]
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return {**data, "environments": same} if same else None
