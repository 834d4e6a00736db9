"""Rules of the registry's `ignore`: it contains only what is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envops.facts.observed import Place
from envops.facts.stages import needed_by
from envops.repository.problem import nearest
from envops.rules.engine import Found, Rule, Subject, all_rules, rule
from envops.rules.evidence import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator


def _in_registry(subject: Subject) -> Place:
    return Place("../../registry.yaml", subject.entry.line)


@rule("SCH090", gate="schema", severity="warning")
def ignored_rule_does_not_exist(subject: Subject) -> Iterator[Found]:
    """The registry ignores a rule that does not exist.

    What: Every id under `ignore` in registry.yaml is the id of a rule.
    Why: A misspelled id ignores nothing.
    Fix: Correct the id or remove the line. docs/rules.md lists all rules.
    """
    known = all_rules()
    for ignored, reason in subject.entry.ignore.items():
        if ignored not in known:
            meant = nearest(ignored, known)
            hint = f"; did you mean {meant}?" if meant else ""
            yield Found(
                f"{ignored} is ignored but is not a rule{hint}",
                Evidence(details={"ignored": ignored, "reason": reason}),
                _in_registry(subject),
            )


@rule("SCH091", gate="schema", severity="advice", last=True)
def ignored_rule_did_not_fire(subject: Subject) -> Iterator[Found]:
    """The registry ignores a rule that finds nothing.

    What: Every rule under `ignore` still finds something. Reported only if its whole gate was observed.
    Why: A forgotten exception hides the next mistake of the same kind.
    Fix: Remove the line from registry.yaml.
    """
    for ignored, reason in subject.entry.ignore.items():
        known = all_rules().get(ignored)
        if known is not None and ignored not in subject.fired and _could_fire(known, subject):
            yield Found(
                f"{ignored} is ignored but finds nothing ({known.title})",
                Evidence(details={"ignored": ignored, "reason": reason}),
                _in_registry(subject),
            )


def _could_fire(known: Rule, subject: Subject) -> bool:
    """Whether the rule was applied to everything that its gate needs."""
    observed = set(needed_by(known.gate)) <= set(subject.facts.completed)
    looked = subject.comparison is not None or not known.compares
    return known.gate in subject.judged and observed and looked and not known.last
