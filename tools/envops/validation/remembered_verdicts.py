"""Results kept beside the facts that they were judged from, so that nothing is judged twice.

A result holds under a digest of all that judging reads: the key of the facts, the entry in the registry with its
thresholds, the recordings, the gates, and the tool's own code. The facts themselves need not be read: what holds under
their key is removed when others are written under it (`observe/remembering.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import packaging

from envops.facts.observed import adapter
from envops.files.atomic_write import write_whole
from envops.repository.package import Package
from envops.repository.recordings import recordings_content
from envops.repository.registry import EnvironmentEntry
from envops.repository.workspace import TOOLS, code_digest, mark_used
from envops.rules.engine import Gate
from envops.rules.result import EnvironmentResult
from envops.validation.facts_on_disk import as_json
from envops.validation.remembering import VERDICT


@dataclass(frozen=True)
class _Kept:
    key: str
    result: EnvironmentResult


@dataclass(frozen=True)
class KeptVerdict:
    """Where the result of one environment is kept, and under which key."""

    path: Path
    key: str

    def read(self) -> EnvironmentResult | None:
        """The result; `None` where there is none, or a damaged or foreign one, or one of other rules."""
        try:
            kept: _Kept = adapter(_Kept).validate_json(self.path.read_bytes(), strict=False)
        except (OSError, ValueError):
            return None
        if kept.key != self.key:
            return None
        mark_used(self.path)
        return kept.result

    def write(self, result: EnvironmentResult) -> None:
        """Keep a result. An `error` is nobody's and may pass, so it is judged again; a full disk costs time only."""
        if result.verdict != "error":
            with suppress(OSError):
                write_whole(self.path, as_json(_Kept(self.key, result)))


def kept_verdict(
    facts: Path, entry: EnvironmentEntry, package: Package, gates: Sequence[Gate], *, brief: bool
) -> KeptVerdict:
    """Where the result from the facts in a file is kept. The file's name is the facts' key."""
    judged = {
        "facts": facts.stem,
        "tool": code_digest(TOOLS),
        "packaging": packaging.__version__,
        # where it stands in registry.yaml matters where a rule points there
        "entry": repr(replace(entry, line=entry.line if entry.ignore else None)),
        "package": [package.folder.name, package.digest, package.hub_hash],
        "recordings": recordings_content(package.folder),
        "gates": gates,
        "brief": brief,
    }
    key = hashlib.sha256(json.dumps(judged).encode()).hexdigest()
    form = "-".join((*gates, "brief") if brief else gates)
    return KeptVerdict(facts.with_suffix(f".{form}{VERDICT}"), key)
