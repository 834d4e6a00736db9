"""The ledger of a release on the terminal and in the summary of a job."""

from __future__ import annotations

from contextlib import suppress

from envwright.release.ledger import LedgerFile, render_release_markdown, render_release_text
from envwright.reports.printing import append_to_summary, print_text


def print_ledger(file: LedgerFile, form: str) -> None:
    """Print a ledger in the chosen form; inside a GitHub job, append the page to its summary too."""
    page = file.scrubber.text(render_release_markdown(file.ledger))
    shown = file.scrubber.text(render_release_text(file.ledger)) if form == "text" else page
    print_text(file.ledger.text(file.scrubber) if form == "json" else shown, guard=form != "json")
    with suppress(OSError):
        append_to_summary(page)
