"""The results of loading published wheels, handed over by a process that has no key."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from envwright.facts.observed import adapter
from envwright.release.ledger import LedgerEntry
from envwright.release.ledger_file import LedgerUnreadable
from envwright.release.verifying import Verified

LOADED = "loaded.json"


def loaded_text(commit: str, loaded: Mapping[str, Verified]) -> str:
    """The results of loading, as the job without a key hands them over."""
    environments = [{"name": name, **asdict(verified)} for name, verified in loaded.items()]
    return json.dumps({"commit": commit, "environments": environments}, indent=2) + "\n"


def read_loaded(file: Path, commit: str) -> dict[str, Verified]:
    """The results of loading at a commit, by name; empty if none were handed over. Raises `LedgerUnreadable`.

    Code of environments ran where this was written. So a result counts for an environment only if the ledger waits for
    it, and the hash of the wheel comes from the ledger.
    """
    if not file.exists():
        return {}
    try:
        data = json.loads(file.read_bytes())
        if data["commit"] != commit:
            raise ValueError(f"it is about the commit {str(data['commit'])[:12]}, and the ledger about {commit[:12]}")
        return {str(each.pop("name")): adapter(Verified).validate_python(each) for each in data["environments"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LedgerUnreadable(f"{file} is not what release verify writes: {type(error).__name__} {error}") from None


def join_loaded(entries: Sequence[LedgerEntry], loaded: Mapping[str, Verified]) -> Iterator[LedgerEntry]:
    """The entries that waited for loading, each with its result; one without a result is not verified."""
    for entry in entries:
        if entry.waits_for_loading and entry.fetched:
            missing = Verified(False, "it was not installed and loaded", entry.fetched.sha256, seen=False)
            result = loaded.get(entry.step.desired.name, missing)
            if result.sha256 != entry.fetched.sha256:
                said = f"another wheel was loaded ({result.sha256[:12]}…)"
                result = Verified(False, said, entry.fetched.sha256, seen=False)
            yield entry.with_verified(result)
