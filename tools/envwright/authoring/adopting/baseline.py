"""The findings at adoption: the environment's entry lists them as known, so that they do not block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from envwright.rules.result import EnvironmentResult

REASON = "found when it was adopted"
NEVER_KNOWN = ("SCH030", "SCH031", "SCH040", "SCH041", "SCH042", "SCH045", "SCH050")
"""Rules whose findings prevent other checks: listed as known, they would hide findings of other rules."""


def known_counts(result: EnvironmentResult) -> Mapping[str, int]:
    """The number of failing findings of each rule; empty if the environment could not be checked."""
    failing = [one for one in result.findings if one.counts and one.severity == "error" and not one.inconclusive]
    if result.verdict == "error" or any(one.bug or one.rule in NEVER_KNOWN for one in failing):
        return {}
    return dict(sorted(Counter(one.rule for one in failing).items()))


def known_rows(counts: Mapping[str, int], day: str) -> tuple[str, ...]:
    """`known:` as lines of an entry in registry.yaml."""
    rows = [f'  {rule}: {{count: {count}, since: "{day}", reason: {REASON}}}' for rule, count in counts.items()]
    return ("known:", *rows) if rows else ()
