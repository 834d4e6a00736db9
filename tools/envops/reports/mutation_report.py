"""reports/mutation.json: every mutant in the report format of Stryker, which other tools show and compare.

The format is mutation-testing-report-schema 2.0 (github.com/stryker-mutator/mutation-testing-elements).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from envops.rules.rewards.mutation import GOOD_SCORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MUTATION_REPORT = "mutation.json"
SCHEMA_VERSION = "2.0"
LOW = 60
"""The share of detected mutants, in percent, below which readers of the format show a warning."""
STATUS = {
    "killed": "Killed",
    "timeout": "Timeout",
    "survived": "Survived",
    "undecided": "Pending",
    "equivalent": "Ignored",
    "skipped": "Ignored",
}
SKIPPED = "It could not replace the running code."


def mutation_report_parts(tool: str, environments: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The report as text, a file at a time; `environments` is the entry of each in validate.json."""
    head = {
        "schemaVersion": SCHEMA_VERSION,
        "thresholds": {"high": round(GOOD_SCORE * 100), "low": LOW},
        "framework": {"name": "envops", "version": tool},
        "files": {},
    }
    start, end = json.dumps(head, indent=1).rsplit("{}", 1)
    between = "{\n"
    yield start
    for environment in environments:
        for path, data in mutated_files(environment):
            yield f"{between}{json.dumps(path)}: {json.dumps(data, separators=(',', ':'))}"
            between = ",\n"
    yield f"{'{}' if between.startswith('{') else chr(10) + '}'}{end}\n"


def mutated_files(environment: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each module with reward code whose source is known, by its path in the repository."""
    mutation = environment.get("mutation") or {}
    for source in mutation.get("sources", ()):
        if source["text"]:
            mutants = [one for one in mutation["mutants"] if one["file"] == source["file"]]
            shown = [_mutant(one, source) for one in mutants]
            yield source["path"], {"language": "python", "source": source["text"], "mutants": shown}


def _mutant(mutant: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    reason = mutant["reason"] or (SKIPPED if mutant["outcome"] == "skipped" else mutant["by"])
    start, end = mutant["start"], mutant["end"]
    is_placed = start is not None and end is not None
    data = {
        "id": mutant["id"],
        "mutatorName": mutant["operator"],
        "description": f"{mutant['operator']} in {mutant['function']}",
        "location": _location(start, end) if is_placed else _whole_line(mutant["line"], source["text"]),
        "status": STATUS[mutant["outcome"]],
    }
    data |= {"replacement": mutant["replacement"]} if is_placed else {}
    return data | ({"statusReason": reason} if reason else {})


def _location(start: Iterable[int], end: Iterable[int]) -> dict[str, dict[str, int]]:
    return {name: dict(zip(("line", "column"), place, strict=True)) for name, place in (("start", start), ("end", end))}


def _whole_line(line: int, text: str) -> dict[str, dict[str, int]]:
    lines = text.split("\n")
    length = len(lines[line - 1]) if line <= len(lines) else 0
    return _location((line, 1), (line, length + 1))
