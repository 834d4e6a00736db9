"""What changed in locks, as Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envwright.text.markdown import code_span, table_cell

MOST_ROWS = 300
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?(?:==|\s*@\s*)(\S+)", re.MULTILINE)


def render_lock_difference(locks: Mapping[str, tuple[str, str]], run: str) -> str:
    """A row for each package whose version differs, by environment; `locks` has the texts before and after."""
    rows = [f"| {table_cell(name)} | {' | '.join(cells)} |\n" for name in locks for cells in _rows(*locks[name])]
    parts = [
        f"The newest versions that the environments allow. {len(locks)} locks differ; all gates passed with these.\n"
    ]
    parts.append(f"\n| environment | package | before | after |\n|---|---|---|---|\n{''.join(rows[:MOST_ROWS])}")
    if len(rows) > MOST_ROWS:
        parts.append(f"\nand {len(rows) - MOST_ROWS:,} more\n")
    return "".join([*parts, f"\nProven by the run {code_span(run)}.\n"])


def _rows(before: str, after: str) -> Iterator[tuple[str, str, str]]:
    old, new = _pins(before), _pins(after)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            yield table_cell(name), table_cell(old.get(name, "–")), table_cell(new.get(name, "–"))


def _pins(text: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for name, version in _PIN.findall(text):
        found.setdefault(name, []).append(version)
    return {name: ", ".join(versions) for name, versions in found.items()}
