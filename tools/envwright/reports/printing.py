"""Text on a terminal or in a log of GitHub, pages in the summary of its jobs, and reports that commands write."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TextIO

from envwright.files.atomic_write import write_whole
from envwright.reports.annotations import wants_annotations
from envwright.text.visible_text import fitting, without_workflow_commands

DEFAULT_WIDTH = 100


def print_text(
    text: str,
    *,
    guard: bool = True,
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Print as far as the stream can show it; with `guard`, so that GitHub's runner finds no command in it."""
    stream = stream or sys.stdout
    text = without_workflow_commands(text) if guard and wants_annotations(environ) else text
    stream.write(fitting(text, getattr(stream, "encoding", None)))
    stream.flush()


def print_message(text: str, *, end: str = "\n") -> None:
    """Print for the user on standard error, which is not parsed."""
    print(fitting(text, sys.stderr.encoding), end=end, file=sys.stderr, flush=True)


def print_report(form: str, written: Mapping[str, str], render: Callable[[int, bool], str]) -> None:
    """Print a report in this form, or else as `render` formats it for the terminal.

    Inside a GitHub job the Markdown is appended to its summary.
    """
    append_to_summary(written["markdown"])
    print_text(written[form] if form in written else for_terminal(render))


def for_terminal(
    render: Callable[[int, bool], str], stream: TextIO | None = None, environ: Mapping[str, str] = os.environ
) -> str:
    """The result of `render` for the terminal's width and colours."""
    terminal = (stream or sys.stdout).isatty()
    width = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns if terminal else DEFAULT_WIDTH
    if environ.get("FORCE_COLOR"):  # https://force-color.org; NO_COLOR is stronger
        return render(width, not environ.get("NO_COLOR"))
    return render(width, terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb")


def append_to_summary(page: str | Iterable[str], environ: Mapping[str, str] = os.environ) -> None:
    """Append a page to the summary of the current GitHub job, if any."""
    summary = environ.get("GITHUB_STEP_SUMMARY")
    if summary and wants_annotations(environ):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.writelines([page] if isinstance(page, str) else page)


def write_report(path: Path, text: str) -> None:
    """Write a report. One that cannot be written is named on standard error, and the verdict is unchanged."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        print(f"{path} could not be written: {error}", file=sys.stderr)
