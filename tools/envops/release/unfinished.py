"""What earlier releases sent and did not verify, from their ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envops.facts.observed import adapter
from envops.release.evidence import ValidationEvidence
from envops.release.ledger_file import LedgerUnreadable
from envops.release.plan import ReleasePlan

FINISHED = ("refused", "wedged")
"""Results of entries for which nothing was sent, or nothing can be used."""


def unfinished_entries(file: Path) -> dict[str, dict[str, Any]]:
    """The entries of earlier releases of which something may have been sent that was not verified, by address.

    Empty without a ledger. Raises `LedgerUnreadable`.
    """
    try:
        data = json.loads(file.read_bytes())
        listed = [*data.get("unfinished", ()), *data["environments"]]
        return {each["address"]: each for each in listed if _is_unfinished(each)}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LedgerUnreadable(f"{file} cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = f"{file} is not the ledger of a release ({type(error).__name__} {error}); move it away"
        raise LedgerUnreadable(said) from None


def _is_unfinished(entry: Mapping[str, Any]) -> bool:
    if entry["result"] in FINISHED or not entry["evidence"] or not entry["evidence"]["wheel"]:
        return False
    return not (entry["verified"] and entry["verified"]["sound"])


def split_unfinished(
    earlier: Mapping[str, dict[str, Any]], plan: ReleasePlan
) -> tuple[dict[str, ValidationEvidence], list[dict[str, Any]]]:
    """What an earlier release published and this one verifies, by name, and the entries that are kept for later."""
    wheels: dict[str, ValidationEvidence] = {}
    kept = dict(earlier)
    for step in plan.steps:
        entry, desired = earlier.get(step.desired.address), step.desired
        if entry is None or step.action in ("unreadable", "not-asked", "no-access", "broken"):
            continue
        kept.pop(desired.address)
        if (entry["package_version"], entry["content_hash"]) == (desired.version, desired.content_hash):
            wheels[desired.name] = adapter(ValidationEvidence).validate_python(entry["evidence"])
    return wheels, list(kept.values())
