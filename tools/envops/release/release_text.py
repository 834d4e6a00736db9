"""What a release did, for people: text and Markdown. The ledger is the machine's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops.text.markdown import code_span, prose, table_cell
from envops.text.visible_text import on_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from envops.release.ledger import Entry, Ledger

_SIGNS = {"published": "+", "unchanged": " ", "refused": "!", "failed": "!", "wedged": "!", "unknown": "?"}


def render_release_text(ledger: Ledger) -> str:
    """The release for a terminal."""
    width = max((len(entry.step.desired.address) for entry in ledger.entries), default=0)
    lines = []
    for entry in ledger.entries:
        address = entry.step.desired.address
        if entry.result == "unchanged" and not entry.evaluations:
            continue
        lines.append(
            f"{_SIGNS.get(entry.result, '?')} {address:<{width}}  {entry.result:<9}  {on_one_line(entry.message)}"
        )
        lines += [f"  {'':<{width}}  {on_one_line(text)}" for text in _besides(entry)]
    lines += [f"  run {run['name']}: {run['outcome']}, {on_one_line(str(run['message']))}" for run in ledger.runs]
    return "\n".join([*lines, sum_of(ledger)]) + "\n"


def _besides(entry: Entry) -> Iterator[str]:
    if entry.verified:
        yield entry.verified.message
    for each in entry.evaluations:
        yield f"evaluation {each.name}: {each.outcome}, {each.message}"
    if entry.next:
        yield f"next: {entry.next}"


def sum_of(ledger: Ledger) -> str:
    """One line about the whole."""
    counted: dict[str, int] = {}
    for entry in ledger.entries:
        counted[entry.result] = counted.get(entry.result, 0) + 1
    said = ", ".join(f"{count:,} {result}" for result, count in counted.items()) or "nothing was chosen"
    return f"{said}{'; interrupted' if ledger.interrupted else ''}."


def render_release_markdown(ledger: Ledger) -> str:
    """The release as a page of Markdown."""
    busy = [entry for entry in ledger.entries if entry.result != "unchanged"]
    parts = [f"## Release of {code_span(ledger.commit[:12] or 'an unknown commit')}\n"]
    if busy:
        parts.append("| | environment | version | result | what |\n|---|---|---|---|---|")
        parts[-1] += "".join(f"\n{_row(entry)}" for entry in busy) + "\n"
    for entry in ledger.entries:
        named = code_span(entry.step.desired.name)
        parts += [f"- {named}: {prose(on_one_line(text))}" for text in _besides(entry)]
    for run in ledger.runs:
        said = on_one_line(f"{run['outcome']}, {run['message']}")
        parts.append(f"- run {code_span(str(run['name']))}: {prose(said)}")
    parts.append(f"\n**{prose(sum_of(ledger))}**")
    return "\n".join(parts) + "\n"


def _row(entry: Entry) -> str:
    sign = {"+": "✓", "!": "✗"}.get(_SIGNS.get(entry.result, "?"), "?")
    what = prose(on_one_line(entry.message)).replace("|", "&#124;")
    wanted = entry.step.desired
    return f"| {sign} | {table_cell(wanted.address)} | {table_cell(wanted.version or '-')} | {entry.result} | {what} |"
