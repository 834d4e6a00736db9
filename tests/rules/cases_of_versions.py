"""Cases of the rules of releases (REL001–REL008)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envwright.declarations.registry import KnownFindings
from envwright.packages.release_history import ReleaseHistory
from rule_cases import RuleCases
from subjects import subject

if TYPE_CHECKING:
    from envwright.rules.engine import Subject

HISTORY = ReleaseHistory(
    base="b" * 40,
    version="0.1.3",
    changed=("README.md",),
    used=(("0.1.3", "c" * 40), ("0.1.2", "d" * 40)),
)


def at(now: str, /, **history: Any) -> Subject:
    """The sound environment at a version, with a README that changed since 0.1.3."""
    return replace(subject(package={"version": now}), history=replace(HISTORY, **history))


NO_HISTORY = subject()
NEW = at("0.1.0", version=None, changed=(), used=())
REVERTED = {"same_content": "e" * 40}


def listing(count: int, before: dict[str, int] | None) -> Subject:
    """A known finding of RWD020, with what was known at the base."""
    each = at("0.1.4", known_before=before)
    known = {"RWD020": KnownFindings(count, "2026-01-31", "came with it")}
    return replace(each, entry=replace(each.entry, known=known))


CASES = {
    "REL008": RuleCases(
        fires={"more of a rule": listing(2, {"RWD020": 1}), "another rule": listing(1, {"RWD004": 1})},
        silent={
            "as many": listing(1, {"RWD020": 1}),
            "the environment is new": listing(5, None),
            "no history was asked for": NO_HISTORY,
        },
    ),
    "REL001": RuleCases(
        fires={
            "a README changed": at("0.1.3"),
            "the version is written otherwise": at("0.1.3.0"),
        },
        silent={
            "no history was asked for": NO_HISTORY,
            "nothing changed": at("0.1.3", changed=()),
            "the version rose": at("0.1.4"),
        },
    ),
    "REL002": RuleCases(
        fires={"a patch less": at("0.1.2")},
        silent={
            "it is new": NEW,
            "it stays": at("0.1.3"),
            "the content is an earlier one, which is said": at("0.1.2", **REVERTED),
        },
    ),
    "REL003": RuleCases(
        fires={"two patches": at("0.1.5")},
        silent={
            "one step past the Hub": at("0.4.2", published="0.4.1"),
            "it falls, which is said": at("0.1.1"),
        },
    ),
    "REL004": RuleCases(
        fires={"an earlier content": at("0.1.2", **REVERTED)},
        silent={"new content": at("0.1.4")},
    ),
    "REL005": RuleCases(
        fires={"used before the base went back": at("0.1.4", used=(("0.1.4", "f" * 40), *HISTORY.used))},
        silent={
            "never used": at("0.1.4"),
            "it stays": at("0.1.3"),
        },
    ),
    "REL006": RuleCases(
        fires={"a patch": at("0.1.4", changed=("plain_sums/taskset.py",), reward_changed=True)},
        silent={
            "a minor step": at("0.2.0", reward_changed=True),
            "only a README changed": at("0.1.4"),
            "the version stays, which is said": at("0.1.3", reward_changed=True),
        },
    ),
    "REL007": RuleCases(
        fires={"another name before": at("0.1.0", version=None, changed=(), renamed_from="simple-sums")},
        silent={"it is new": NEW},
    ),
}
