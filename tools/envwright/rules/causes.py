"""Findings that are consequences of others: only the cause is reported, with the rules that wait for it.

A row of `CAUSES` names rules whose findings invalidate the basis of others: the reference reply, a reward, a finished
rollout. A waiting rule is judged again when the cause is fixed. Its gate cannot pass until then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from envwright.rules.gold import ORACLE_FILE

if TYPE_CHECKING:
    from envwright.rules.engine import Finding

MANY = 0.1
"""The share of broken rollouts from which the distribution of rewards is unknown."""

COMPARISONS_WITH_GOLD = (
    *("RWD005", "RWD007", "RWD008", "RWD009", "RWD060", "RWD062", "RWD063", "RWD064", "RWD065", "RWD066"),
    *("RWD067", "RWD068", "RWD069", "RWD085", "RWD086", "RWD087", "RWD088"),
)
MUTANTS = ("RWD080", "RWD081", "RWD082", "RWD083", "RWD084")
DISTRIBUTION = ("DST001", "DST002", "DST003", "DST004", "DST005", "DST010", "DST014", "DST016", "DST017")
LOST_ROLLOUTS = ("DST006", "DST007", "DST011", "DST012", "DST013", "SMK004")
ROLLOUTS_FAIL = ("SMK001", "SMK002", "SMK003", "SMK008", "SMK009", "SMK011")
FUNCTIONS_FAIL = ("RWD020", "RWD021", "RWD022", "RWD023")
GOLD_FAILS = ("RWD001", "RWD002", "RWD003")


@dataclass(frozen=True)
class Cause:
    """Rules that are causes, and the rules whose findings are then consequences."""

    rules: tuple[str, ...]
    consequences: tuple[str, ...]
    where: Callable[[Finding, Finding], bool] = lambda _cause, _consequence: True
    """Whether a finding is a consequence of the cause."""


def _touches_all(cause: Finding, _: Finding) -> bool:
    evidence = cause.evidence
    return evidence.count is None or evidence.of is None or evidence.count >= evidence.of


def _touches_many(cause: Finding, _: Finding) -> bool:
    evidence = cause.evidence
    return not evidence.count or not evidence.of or evidence.count >= MANY * evidence.of


def _is_undecided(cause: Finding, consequence: Finding) -> bool:
    """Whether too few rollouts decide, as when most have no reference reply or no time."""
    return consequence.inconclusive and _touches_all(cause, consequence)


def _earns_nothing(cause: Finding, consequence: Finding) -> bool:
    """Whether all rewards are 0, as without any right reply. A constant reply needs no reference."""
    earned = consequence.evidence.earned
    return _touches_all(cause, consequence) and earned is not None and not earned.reward


def _breaks_alike(cause: Finding, consequence: Finding) -> bool:
    """Whether the same exception caused both, wherever it was caught."""
    one, other = cause.evidence.failure, consequence.evidence.failure
    same_line = cause.place is not None and cause.place == consequence.place
    return same_line or (one is not None and other is not None and _kind(one.error) in other.error)


def _has_no_reward(_: Finding, consequence: Finding) -> bool:
    earned = consequence.evidence.earned
    return earned is not None and earned.reward is None


def _kind(error: str) -> str:
    return error.partition(":")[0]


def _is_the_oracles(_: Finding, consequence: Finding) -> bool:
    failure = consequence.evidence.failure
    in_oracle = consequence.place is not None and consequence.place.file == ORACLE_FILE
    return in_oracle or (failure is not None and ORACLE_FILE in failure.traceback)


def _knows_no_function(_: Finding, consequence: Finding) -> bool:
    """Whether no function is known, as when an environment names its rewards in rollouts only."""
    return not consequence.evidence.details.get("functions")


def _is_locked_wrongly(cause: Finding, _: Finding) -> bool:
    return "locked to verifiers" in cause.message


CAUSES = (
    Cause(("SCH041",), ("SCH009", "SCH010", "SCH011"), _is_locked_wrongly),
    Cause(("SCH040", "SCH041", "SCH042", "SCH043", "SCH045", "SCH046"), ("SCH044", "SCH057")),
    Cause(("SCH050",), ("DST001", "RWD010")),
    Cause(GOLD_FAILS, (*COMPARISONS_WITH_GOLD, *MUTANTS, *DISTRIBUTION, "SMK006", "SMK012"), _touches_all),
    Cause(GOLD_FAILS, ("RWD010",), _earns_nothing),
    Cause(GOLD_FAILS, LOST_ROLLOUTS, _is_undecided),
    Cause(("DST019",), (*DISTRIBUTION, *LOST_ROLLOUTS), _is_undecided),
    Cause(("RWD003",), ("SMK001",), _is_the_oracles),
    Cause(FUNCTIONS_FAIL, ("RWD032", "RWD033", "RWD043", "SMK001", "SMK008"), _breaks_alike),
    Cause(FUNCTIONS_FAIL, (*MUTANTS, "RWD078", "RWD089", *LOST_ROLLOUTS, *DISTRIBUTION)),
    Cause(FUNCTIONS_FAIL, ("RWD060", "REC001", "REC006"), _has_no_reward),
    Cause(("RWD032",), ("RWD041", "RWD042", "SMK001", "SMK008", "SMK011"), _breaks_alike),
    Cause(("RWD032",), (*MUTANTS, "RWD073", "RWD093", "REC005"), _touches_all),
    Cause(("RWD033",), ("SMK001", "SMK008"), _breaks_alike),
    Cause(("RWD010",), (*COMPARISONS_WITH_GOLD, "RWD004", "RWD006", "RWD061", "RWD079", *MUTANTS, *DISTRIBUTION)),
    Cause(("RWD094",), (*MUTANTS, *DISTRIBUTION, "RWD010", "REC005")),
    Cause(ROLLOUTS_FAIL, LOST_ROLLOUTS),
    Cause(("RWD032", "RWD033", *ROLLOUTS_FAIL), ("RWD050",), _knows_no_function),
    Cause(ROLLOUTS_FAIL, DISTRIBUTION, _touches_many),
)


@dataclass(frozen=True)
class Explained:
    """Findings without consequences, and the consequences."""

    findings: tuple[Finding, ...]
    waiting: tuple[Finding, ...]


def explained(found: Iterable[Finding]) -> Explained:
    """Leave out consequences of findings that count, and name them at their cause."""
    everything = list(found)
    cause_of = {index: cause for index in range(len(everything)) if (cause := _cause_of(everything, index)) is not None}
    waiting: dict[int, dict[str, None]] = defaultdict(dict)
    for index, cause in cause_of.items():
        waiting[_first(cause_of, cause)][everything[index].rule] = None
    kept = [
        replace(finding, waiting=tuple(waiting[index])) if index in waiting else finding
        for index, finding in enumerate(everything)
        if index not in cause_of
    ]
    return Explained(tuple(kept), tuple(everything[index] for index in cause_of))


def _cause_of(everything: list[Finding], index: int) -> int | None:
    consequence = everything[index]
    if consequence.ignored is not None or consequence.bug:
        return None
    for cause in CAUSES:
        if consequence.rule not in cause.consequences:
            continue
        for number, other in enumerate(everything):
            # a known finding blocks nothing, and its consequences are still not judged
            holds = other.counts or (other.known and replace(other, ignored=None).counts)
            if other.rule in cause.rules and holds and cause.where(other, consequence):
                return number
    return None


def _first(cause_of: dict[int, int], index: int) -> int:
    """The cause of a cause, if it has one. The table has no circles."""
    while index in cause_of:
        index = cause_of[index]
    return index
