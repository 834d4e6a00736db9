"""Known findings: what an environment's entry in registry.yaml lists does not block, and can only become less."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from envops.repository.registry import KnownFindings
    from envops.rules.engine import Finding


MARK = "known since"


def is_known(finding: Finding) -> bool:
    """Whether a finding does not block because its environment's entry lists it."""
    return finding.ignored is not None and finding.ignored.startswith(MARK)


def with_known(found: Iterable[Finding], known: Mapping[str, KnownFindings]) -> Iterator[Finding]:
    """Mark as many findings of each rule as are known; those beyond the count stay as they are."""
    seen: Counter[str] = Counter()
    for finding in found:
        listed = known.get(finding.rule)
        if listed is None or finding.ignored is not None or finding.bug:
            yield finding
            continue
        seen[finding.rule] += 1
        is_known = seen[finding.rule] <= listed.count
        yield replace(finding, ignored=f"{MARK} {listed.since}: {listed.reason}") if is_known else finding
