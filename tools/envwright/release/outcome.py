"""The outcome of a release: its exit code, and the reason where that is not 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envwright import exit_codes
from envwright.release.ledger import ReleaseLedger


def outcome(ledger: ReleaseLedger, failed: Sequence[str] = (), unknown: Sequence[str] = ()) -> tuple[int, str]:
    """The exit code of a release, and why it is not 0."""
    if ledger.interrupted:
        return exit_codes.INTERRUPTED, "the release was interrupted; run it again: it reads the Hub's state first"
    for code, why in (
        (exit_codes.FAIL, [*_failures(ledger), *failed]),
        (exit_codes.ERROR, [*_unknowns(ledger), *unknown]),
    ):
        if why:
            return code, "; ".join(why)
    return exit_codes.PASS, ""


def _failures(ledger: ReleaseLedger) -> list[str]:
    """What was refused or failed."""
    return [*_entries_with(ledger, {"refused", "failed", "wedged"}), *_parts_with(ledger, "failed")]


def _unknowns(ledger: ReleaseLedger) -> list[str]:
    """What has no known result."""
    runs = [run["name"] for run in ledger.runs if run["outcome"] == "unknown"]
    return [
        *_entries_with(ledger, {"unknown", "not-reached"}),
        *(f"the result of submitting run {name} is unknown" for name in runs),
    ]


def _entries_with(ledger: ReleaseLedger, results: set[str]) -> Iterator[str]:
    return (f"{entry.step.desired.address} is {entry.result}" for entry in ledger.entries if entry.result in results)


def _parts_with(ledger: ReleaseLedger, outcome: str) -> Iterator[str]:
    for entry in ledger.entries:
        yield from (f"evaluation {each.name} {outcome}" for each in entry.evaluations if each.outcome == outcome)
    yield from (f"run {run['name']} {outcome}: {run['message']}" for run in ledger.runs if run["outcome"] == outcome)
