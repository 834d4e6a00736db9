"""reports/validate.html, made from the files beside it."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envwright import __version__
from envwright.reports.before_after import read_comparisons
from envwright.reports.run_report import ANSWER_VERDICTS, RUNS_FOLDER, read_runs, run_file
from envwright.reports.transcripts.beside import read_transcripts, safe_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from envwright.reports.run_report import RunReport
    from envwright.rules.engine import Verdict
    from envwright.rules.result import ValidationResult

PAGE = "validate.html"


def page_parts_of(
    result: ValidationResult, environments: Sequence[Mapping[str, Any]], folder: Path, *, one_file: bool = False
) -> Iterator[str]:
    """The page of a result, with the reward diff, comparisons and runs in the folder of reports.

    `environments` is the entry of each in validate.json. With `one_file` the page holds the transcripts, too.
    """
    from envwright.reports.html.page import page_parts

    runs, unreadable = read_runs(folder)
    compared = read_comparisons(folder, {one["name"]: one["digest"] for one in environments})
    diff = read_diff(folder / "reward-diff.json", environments)
    held = _transcripts(environments, folder) if one_file else None
    return page_parts(result, environments, diff, runs, unreadable, compared, held)


def _transcripts(environments: Sequence[Mapping[str, Any]], folder: Path) -> Iterator[tuple[str, str]]:
    """The packed transcripts beside a report, one at a time."""
    for environment in environments:
        content = read_transcripts(folder, environment["name"]) if environment.get("transcripts") else None
        if content is not None:
            yield safe_key(environment["name"]), content


def write_page(folder: Path, *, one_file: bool = False) -> Path:
    """Rewrite the page from validate.json and the files beside it; with `one_file` it holds the transcripts, too.

    Raises `DeclarationError` if validate.json is missing or cannot be read.
    """
    from envwright.files.atomic_write import write_whole
    from envwright.reports.reading import read_report, result_of
    from envwright.system.file_lock import alone

    with alone(folder, is_folder=True):
        data = read_report(folder / "validate.json")
        write_whole(folder / PAGE, page_parts_of(result_of(data), data["environments"], folder, one_file=one_file))
    return folder / PAGE


def write_run_page(run: RunReport, reports: Path) -> Path:
    """The page of one run, beside its JSON."""
    from envwright.files.atomic_write import write_whole
    from envwright.reports.html.page import page_parts
    from envwright.rules.result import ValidationResult

    verdict: Verdict = ANSWER_VERDICTS[run.answer.answer] if run.answer else "inconclusive"
    path = (reports / RUNS_FOLDER / run_file(run.name)).with_suffix(".html")
    path.parent.mkdir(parents=True, exist_ok=True)
    result = ValidationResult(verdict, tool_version=__version__)
    write_whole(path, page_parts(result, (), runs=[run], heading=f"Training run {run.name}"))
    return path


def refresh_page(folder: Path) -> None:
    """Rewrite the page after a file beside validate.json changed; without validate.json there is no page."""
    from envwright.declarations.problem import DeclarationError

    with suppress(DeclarationError, OSError):
        write_page(folder)


def read_diff(path: Path, environments: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The reward diff beside a report, for the same packages; `None` if there is none."""
    try:
        data = json.loads(path.read_bytes())
        digests = {one["name"]: one["digest"] for one in environments}
        same = [
            one
            for one in data["environments"]
            if one["name"] in digests and one.get("head", {}).get("digest") == digests[one["name"]]
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return {**data, "environments": same} if same else None
