"""Printing and writing of what the forms of `envops rewards` have to say."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from envops.files.atomic_write import write_whole
from envops.reports.annotations import wants_annotations
from envops.text.visible_text import fitting, without_workflow_commands

DEFAULT_WIDTH = 100


def print_text(render: Callable[[int, bool], str]) -> None:
    """Print what `render` makes of the terminal's width and of whether it shows colours."""
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns if terminal else DEFAULT_WIDTH
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    text = render(width, colour)
    if wants_annotations(os.environ):
        text = without_workflow_commands(text)
    sys.stdout.write(fitting(text, sys.stdout.encoding))
    sys.stdout.flush()


def write_report(path: Path, text: str) -> None:
    """Write a report; that it cannot be written is said and changes no verdict."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        print(f"{path} could not be written: {error}", file=sys.stderr)


def append_to_summary(page: str) -> None:
    """Inside a GitHub workflow: show the page in the job's summary."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if wants_annotations(os.environ) and summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(page)
