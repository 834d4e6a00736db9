"""The registry's `ignore` itself: it may only hold what is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops.facts.observed import Place
from envops.facts.stages import needed_by
from envops.repository.problem import nearest
from envops.rules.engine import Found, Rule, Subject, all_rules, rule

if TYPE_CHECKING:
    from collections.abc import Iterator


def _in_registry(subject: Subject) -> Place:
    return Place("../../registry.yaml", subject.entry.line)


@rule("SCH090", gate="schema", severity="warning")
def ignored_rule_does_not_exist(subject: Subject) -> Iterator[Found]:
    """The registry ignores a rule that does not exist.

    What: Every id under `ignore` in registry.yaml is that of a rule.
    Why: A misspelt id ignores nothing, and its reason explains nothing.
    Fix: Correct the id or drop the line; docs/rules.md lists all rules.
    """
    known = all_rules()
    for ignored, reason in subject.entry.ignore.items():
        if ignored not in known:
            meant = nearest(ignored, known)
            hint = f"; did you mean {meant}?" if meant else ""
            yield Found(
                f"{ignored} is ignored but is no rule{hint}",
                {"ignored": ignored, "reason": reason},
                _in_registry(subject),
            )


@rule("SCH091", gate="schema", severity="advice", last=True)
def ignored_rule_did_not_fire(subject: Subject) -> Iterator[Found]:
    """The registry ignores a rule that has nothing to find.

    What: Every rule under `ignore` still finds something. Said only where its whole gate was observed.
    Why: A forgotten exception hides the next mistake of the same kind.
    Fix: Drop the line from registry.yaml.
    """
    for ignored, reason in subject.entry.ignore.items():
        known = all_rules().get(ignored)
        if known is not None and ignored not in subject.fired and _could_fire(known, subject):
            yield Found(
                f"{ignored} is ignored but finds nothing ({known.title})",
                {"ignored": ignored, "reason": reason},
                _in_registry(subject),
            )


def _could_fire(known: Rule, subject: Subject) -> bool:
    """Whether the rule was applied to everything that its gate needs."""
    observed = set(needed_by(known.gate)) <= set(subject.facts.completed)
    looked = subject.comparison is not None or not known.compares
    return known.gate in subject.judged and observed and looked and not known.last
