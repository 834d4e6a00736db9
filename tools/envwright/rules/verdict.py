"""The verdict from findings and failures, per gate and for the whole environment.

For one gate, the first that holds:

1. An error finding that counts (not ignored) and is conclusive: **fail**.
2. A stage that the gate needs failed for reasons outside the environment, or a
   rule itself failed: **error**.
3. A finding that counts and is inconclusive, a needed stage that did not complete, or a finding that waits for
   its cause in another gate (`rules/causes.py`): **inconclusive**.
4. Otherwise: **pass**.

The whole environment has the verdict of its worst gate: fail, then error, then inconclusive, then pass.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envwright.facts.stages import needed_by
from envwright.rules.causes import explained
from envwright.rules.engine import GATES, Finding, Gate, Subject, Verdict, findings
from envwright.rules.profiles import RewardProfile, profiles
from envwright.statistics.measures import Distribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from envwright.facts.observed import Facts, Failure
    from envwright.facts.stages import StageName
    from envwright.repository.registry import KnownFindings

VERDICTS: tuple[Verdict, ...] = ("fail", "error", "inconclusive", "pass")
"""Worst first."""


@dataclass(frozen=True)
class GateVerdict:
    """The verdict of one gate, with a reason that can be printed."""

    gate: Gate
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Judgement:
    """The verdict on one environment, with its reasons."""

    verdict: Verdict
    gates: Mapping[Gate, GateVerdict]
    """The verdicts of the judged gates."""
    findings: tuple[Finding, ...]
    """The findings, with ignored ones and those without effect on the verdict, without consequences of others."""
    distributions: tuple[Distribution, ...] = ()
    """The measurements of the rewards, if the distribution gate was judged."""
    profiles: tuple[RewardProfile, ...] = ()
    """The rewards of each policy."""


def with_known(found: Iterable[Finding], known: Mapping[str, KnownFindings]) -> Iterator[Finding]:
    """Mark as many findings of each rule as the registry lists as known; those beyond the count are unchanged."""
    seen: Counter[str] = Counter()
    for finding in found:
        listed = known.get(finding.rule)
        if listed is None or finding.ignored is not None or finding.bug:
            yield finding
            continue
        seen[finding.rule] += 1
        if seen[finding.rule] <= listed.count:
            finding = replace(finding, ignored=f"known since {listed.since}: {listed.reason}", known=True)
        yield finding


def judge(subject: Subject, gates: Iterable[Gate] = GATES, *, brief: bool = False) -> Judgement:
    """Apply the rules of the chosen gates and draw the verdict; `brief` leaves out profiles of passing environments."""
    chosen = [gate for gate in GATES if gate in set(gates)]
    explained_findings = explained(with_known(findings(subject, chosen), subject.entry.known))
    found = explained_findings.findings
    verdicts = {gate: gate_verdict(gate, found, subject.facts, explained_findings.waiting) for gate in chosen}
    measured = subject.distributions if "distribution" in chosen else ()
    verdict = worst(each.verdict for each in verdicts.values())
    pictured = () if brief and verdict == "pass" else profiles(subject)
    return Judgement(verdict, verdicts, found, measured, pictured)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a whole from those of its parts; no parts pass."""
    return min(verdicts, key=VERDICTS.index, default="pass")


def gate_verdict(gate: Gate, found: Sequence[Finding], facts: Facts, waiting: Sequence[Finding] = ()) -> GateVerdict:
    """The verdict of one gate; findings of other gates are skipped, and `waiting` has those with a cause."""
    counting = [finding for finding in found if finding.gate == gate and finding.counts]
    conclusive = [finding for finding in counting if not finding.bug and not finding.inconclusive]
    if conclusive:
        return GateVerdict(gate, "fail", _named(conclusive))
    needed = needed_by(gate)
    broken = facts.broken_infrastructure()
    stage = next((stage for stage in needed if stage in broken), None)
    if stage is not None:
        return GateVerdict(gate, "error", f"{stage}: {_described(broken[stage])}")
    bugs = [finding for finding in counting if finding.bug]
    if bugs:
        return GateVerdict(gate, "error", f"bug in envwright: {_named(bugs)}")
    unreached = [stage for stage in needed if stage not in facts.completed]
    if unreached:
        return GateVerdict(gate, "inconclusive", _why_unreached(unreached, facts))
    if counting:
        return GateVerdict(gate, "inconclusive", f"too little evidence: {_named(counting)}")
    if any(finding.gate == gate and finding.counts for finding in waiting):
        rules = {finding.rule for finding in waiting if finding.gate == gate and finding.counts}
        causes = [finding for finding in found if rules & set(finding.waiting)]
        return GateVerdict(gate, "inconclusive", f"waits for {_named(causes)}")
    return GateVerdict(gate, "pass", "no findings")


def _named(found: Iterable[Finding]) -> str:
    return ", ".join(dict.fromkeys(finding.rule for finding in found))


def _why_unreached(unreached: list[StageName], facts: Facts) -> str:
    first = next((stage for stage in unreached if stage in facts.failures), None)
    names = ", ".join(unreached)
    if first is None:
        return f"not observed: {names}"
    return f"{first} failed ({_described(facts.failures[first])}), so this was not reached: {names}"


def _described(failure: Failure) -> str:
    first_line = (failure.message.strip().splitlines() or [""])[0]
    return f"{failure.kind}, {failure.type}: {first_line}" if first_line else f"{failure.kind}, {failure.type}"
