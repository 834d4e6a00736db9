"""reports/validate.html, written from what lies beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envops.report.run_report import read_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = "validate.html"


class NoReport(Exception):
    """There is nothing to make a page of, or it cannot be read."""


def write_page(folder: Path, report: Mapping[str, Any] | None = None) -> Path:
    """Write the page of the reports in a folder; where no data is given it is read from validate.json.

    A reward diff and reports of runs that lie there are part of it. Raises `NoReport` where there is no
    validate.json or something else lies in its place.
    """
    from envops.report.html.page import render_page
    from envops.report.written import write_whole

    data = report if report is not None else read_report(folder / "validate.json")
    runs, _ = read_runs(folder)
    write_whole(folder / PAGE, render_page(data, read_diff(folder / "reward-diff.json", data), runs))
    return folder / PAGE


def read_report(path: Path) -> dict[str, Any]:
    """The data of validate.json. Raises `NoReport` when it is not there or of another shape."""
    from importlib.resources import files

    import jsonschema

    try:
        data = json.loads(path.read_bytes())
        schema = json.loads((files("envops.report") / "validate.schema.json").read_bytes())
        jsonschema.validate(data, schema, jsonschema.Draft202012Validator)
    except FileNotFoundError:
        raise NoReport(f"{path} is not there") from None
    except (ValueError, OSError, RecursionError, jsonschema.ValidationError) as error:
        what = error.message if isinstance(error, jsonschema.ValidationError) else str(error)
        raise NoReport(f"{path} is not what validate writes: {what[:300]}") from None
    assert isinstance(data, dict)
    return data


def read_diff(path: Path, report: Mapping[str, Any]) -> dict[str, Any] | None:
    """The reward diff beside a report, as far as it speaks of the same packages; `None` where it does not."""
    try:
        data = json.loads(path.read_bytes())
        digests = {one["name"]: one["digest"] for one in report["environments"]}
        same = [
            one
            for one in data["environments"]
            if one["name"] in digests and one.get("head", {}).get("digest") in (digests[one["name"]], None)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return {**data, "environments": same} if same else None
