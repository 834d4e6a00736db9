"""Writing of reports: files under reports/, one form on standard output, GitHub's own."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

from envwright.files.atomic_write import write_whole
from envwright.reports.html.written import PAGE, page_parts_of
from envwright.reports.json_report import environment_data, head_data, json_parts, plain_json_parts
from envwright.reports.junit import junit_parts
from envwright.reports.markdown import markdown_parts, render_markdown
from envwright.reports.printing import (
    append_to_summary,
    for_terminal,
    is_in_job,
    print_text,
    render_annotations,
)
from envwright.reports.sarif import render_sarif
from envwright.reports.spill_list import SpillList
from envwright.reports.transcripts.beside import FOLDER as TRANSCRIPTS
from envwright.reports.transcripts.beside import copy_transcripts, write_transcripts
from envwright.system.file_lock import alone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from envwright.rules.result import ValidationResult

PrintFormat = Literal["text", "json", "markdown"]

_RENDERINGS: dict[str, Callable[[ValidationResult], Iterable[str]]] = {
    "validate.xml": junit_parts,
    "validate.md": markdown_parts,
    "validate.sarif": lambda result: (render_sarif(result),),
}


def report(result: ValidationResult, folder: Path, form: PrintFormat, *, quiet: bool, verbose: bool = False) -> None:
    """Write, print and send to GitHub; a failed write is reported, and does not change the verdict."""
    written: tuple[Path, ...] = ()
    try:
        written = write_reports(result, folder)
    except (OSError, ExceptionGroup) as error:
        causes: dict[str, list[str]] = {}
        for each in error.exceptions if isinstance(error, ExceptionGroup) else (error,):
            cause = each.strerror if isinstance(each, OSError) and each.strerror else f"{type(each).__name__}: {each}"
            causes.setdefault(cause, []).extend(getattr(each, "__notes__", ["reports"]))
        for cause, names in causes.items():
            print(f"{', '.join(names)} could not be written to {folder}: {cause}", file=sys.stderr)
    print_result(result, form, reports=written, quiet=quiet, verbose=verbose)
    report_to_github(result)


def write_reports(
    result: ValidationResult,
    folder: Path,
    *,
    environments: Sequence[Mapping[str, Any]] | None = None,
    transcripts: Mapping[str, Path] | None = None,
) -> tuple[Path, ...]:
    """Write every report atomically, an environment at a time.

    `environments` has their JSON entries in a merged report, which contain more than the result, and `transcripts` the
    folder of the report that each environment is from.

    If a report cannot be written, the others are still written, and an `ExceptionGroup` with the errors is raised.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    errors: list[Exception] = []
    entries = _environment_entries(result, folder) if environments is None else environments
    renderings: dict[str, Callable[[], Iterable[str]]] = {
        "validate.json": partial(plain_json_parts, head_data(result), entries),
        **{name: partial(render, result) for name, render in _RENDERINGS.items()},
        PAGE: partial(page_parts_of, result, entries, folder),
    }
    with alone(folder, is_folder=True):  # all reports there are of one run
        try:  # before the page, which loads them
            if transcripts is None:
                write_transcripts(result.environments, folder)
            else:
                copy_transcripts(transcripts, folder)
        except Exception as error:
            error.add_note(TRANSCRIPTS)
            errors.append(error)
        for name, render in renderings.items():
            try:
                write_whole(folder / name, render())
                written.append(folder / name)
            except Exception as error:
                error.add_note(name)
                errors.append(error)
    if errors:
        raise ExceptionGroup(f"{len(errors)} reports could not be written to {folder}", errors)
    return tuple(written)


def _environment_entries(result: ValidationResult, folder: Path) -> SpillList[dict[str, Any]]:
    """The JSON entry of each environment: two reports are made from it, one of them in several attempts."""
    entries: SpillList[dict[str, Any]] = SpillList(folder)
    for environment in result.environments:
        entries.append(environment_data(environment))
    return entries


def print_result(
    result: ValidationResult,
    form: PrintFormat = "text",
    *,
    reports: Sequence[Path] = (),
    quiet: bool = False,
    verbose: bool = False,
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Print the result in the chosen form, as far as the stream can show it."""
    stream = stream or sys.stdout
    if form == "json":
        for part in json_parts(result):  # plain ASCII, which contains no workflow command
            stream.write(part)
        stream.flush()
        return
    if form == "markdown":
        print_text(render_markdown(result), stream=stream, environ=environ)
        return
    from envwright.reports.terminal import render_text

    names = [_from_here(path) for path in reports]
    render = partial(render_text, result, quiet=quiet, verbose=verbose, reports=names)
    text = for_terminal(lambda width, colour: render(width=width, colour=colour), stream, environ)
    print_text(text, stream=stream, environ=environ)


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def report_to_github(
    result: ValidationResult, *, stream: TextIO | None = None, environ: Mapping[str, str] = os.environ
) -> None:
    """Inside a GitHub workflow: annotations to standard error, the page to the job's summary."""
    if not is_in_job(environ):
        return
    print_text("".join(f"{line}\n" for line in render_annotations(result)), guard=False, stream=stream or sys.stderr)
    append_to_summary(markdown_parts(result), environ)
