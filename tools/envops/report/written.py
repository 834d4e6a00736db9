"""Reports where they belong: files under reports/, one form on standard output, GitHub's own."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

from envops.report.annotations import render_annotations, wants_annotations
from envops.report.html.written import PAGE, page_of
from envops.report.json_report import render_json, report_data
from envops.report.junit import render_junit
from envops.report.markdown import render_markdown
from envops.report.plain_data import plain_data
from envops.report.sarif import render_sarif
from envops.report.visible_text import fitting, without_workflow_commands

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from envops.report.result import ValidationResult

Form = Literal["text", "json", "markdown"]

_RENDERINGS: dict[str, Callable[[ValidationResult], str]] = {
    "validate.json": render_json,
    "validate.xml": render_junit,
    "validate.md": render_markdown,
    "validate.sarif": render_sarif,
}


def report(result: ValidationResult, folder: Path, form: Form, *, quiet: bool) -> None:
    """Write, print and tell GitHub; a report that cannot be written is said, and does not change the verdict."""
    written: tuple[Path, ...] = ()
    try:
        written = write_reports(result, folder)
    except (OSError, ExceptionGroup) as error:
        for why in error.exceptions if isinstance(error, ExceptionGroup) else (error,):
            print(f"a report could not be written to {folder}: {type(why).__name__}: {why}", file=sys.stderr)
    print_result(result, form, reports=written, quiet=quiet)
    tell_github(result)


def write_reports(result: ValidationResult, folder: Path, *, json_text: str | None = None) -> tuple[Path, ...]:
    """Write every report; a reader sees a whole one or the one before.

    `json_text` is the JSON where it holds more than the result does: that of a merged report.

    A report that cannot be written does not keep the others from being written; then an
    `ExceptionGroup` of what went wrong is raised.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    errors: list[Exception] = []
    renderings: dict[str, Callable[[], str]] = {name: partial(render, result) for name, render in _RENDERINGS.items()}
    if json_text is not None:
        renderings["validate.json"] = lambda: json_text
    for name, render in renderings.items():
        try:
            write_whole(folder / name, render())
            written.append(folder / name)
        except Exception as error:
            errors.append(error)
    try:
        written.append(_write_page(result, folder, folder / "validate.json" in written))
    except Exception as error:
        errors.append(error)
    if errors:
        raise ExceptionGroup(f"{len(errors)} reports could not be written to {folder}", errors)
    return tuple(written)


def _write_page(result: ValidationResult, folder: Path, json_is_new: bool) -> Path:
    """The page, from the JSON that was just written, and without it from the result."""
    data = json.loads((folder / "validate.json").read_bytes()) if json_is_new else plain_data(report_data(result))
    write_whole(folder / PAGE, page_of(data, folder))
    return folder / PAGE


def write_whole(path: Path, text: str) -> None:
    """Write aside and rename, so that an interruption never leaves half a file."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    aside = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        aside.chmod(0o644)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def print_result(
    result: ValidationResult,
    form: Form = "text",
    *,
    reports: Sequence[Path] = (),
    quiet: bool = False,
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Print the result in the chosen form, as far as the stream can show it."""
    stream = stream or sys.stdout
    if form == "json":
        text = render_json(result)
    elif form == "markdown":
        text = render_markdown(result)
    else:
        text = _closing_text(result, reports, stream, environ, quiet=quiet)
    if wants_annotations(environ) and form != "json":
        text = without_workflow_commands(text)
    stream.write(fitting(text, getattr(stream, "encoding", None)))
    stream.flush()


def _closing_text(
    result: ValidationResult, reports: Sequence[Path], stream: TextIO, environ: Mapping[str, str], *, quiet: bool
) -> str:
    from envops.report.terminal import DEFAULT_WIDTH, render_text

    terminal = stream.isatty()
    width = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns if terminal else DEFAULT_WIDTH
    colour = terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    names = [_from_here(path) for path in reports]
    return render_text(result, width=width, colour=colour, quiet=quiet, reports=names)


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def tell_github(
    result: ValidationResult, *, stream: TextIO | None = None, environ: Mapping[str, str] = os.environ
) -> None:
    """Inside a GitHub workflow: annotations to standard error, the page to the job's summary."""
    if not wants_annotations(environ):
        return
    stream = stream or sys.stderr
    for line in render_annotations(result):
        stream.write(fitting(f"{line}\n", getattr(stream, "encoding", None)))
    stream.flush()
    if summary := environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(render_markdown(result))
