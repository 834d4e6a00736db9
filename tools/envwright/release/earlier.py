"""What earlier releases published, from their ledger: a release verifies what they did not, and keeps what they did."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from envwright.release.ledger import LedgerEntry
from envwright.release.ledger_file import read_ledger
from envwright.release.plan import ReleasePlan

NOT_PUBLISHED = ("refused", "wedged")
"""Results of entries for which nothing was sent, or nothing can be used."""


def earlier_entries(file: Path) -> dict[str, LedgerEntry]:
    """The entries with a tested wheel of which something may have been sent, by address; empty without a ledger.

    Raises `LedgerUnreadable`.
    """
    if not file.exists():
        return {}
    ledger = read_ledger(file)
    entries = (*ledger.earlier, *ledger.entries)
    sent = (entry for entry in entries if entry.evidence and entry.result not in NOT_PUBLISHED)
    return {entry.step.desired.address: entry for entry in sent}


def split_earlier(
    earlier: Mapping[str, LedgerEntry], plan: ReleasePlan
) -> tuple[dict[str, LedgerEntry], list[LedgerEntry]]:
    """The entries with the content that the plan has, by name, and those of environments outside of the plan."""
    same: dict[str, LedgerEntry] = {}
    kept = dict(earlier)
    for step in plan.steps:
        entry, desired = earlier.get(step.desired.address), step.desired
        if entry is None or step.action in ("unreadable", "not-asked", "no-access", "broken"):
            continue
        kept.pop(desired.address)
        before = entry.step.desired
        if (before.version, before.content_hash) == (desired.version, desired.content_hash):
            same[desired.name] = entry
    return same, list(kept.values())
