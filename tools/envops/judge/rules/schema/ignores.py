"""The registry's `ignore` itself: it may only hold what is needed."""

from __future__ import annotations

from collections.abc import Iterator

from envops.declare.problem import nearest
from envops.judge.engine import Found, Subject, all_rules, rule
from envops.judge.verdict import STAGES_OF_GATE
from envops.observe.facts import Place


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
    for id, reason in subject.entry.ignore.items():
        if id not in known:
            meant = nearest(id, known)
            hint = f"; did you mean {meant}?" if meant else ""
            yield Found(
                f"{id} is ignored but is no rule{hint}", {"ignored": id, "reason": reason}, _in_registry(subject)
            )


@rule("SCH091", gate="schema", severity="advice", last=True)
def ignored_rule_did_not_fire(subject: Subject) -> Iterator[Found]:
    """The registry ignores a rule that has nothing to find.

    What: Every rule under `ignore` still finds something. Said only where its whole gate was observed.
    Why: A forgotten exception hides the next mistake of the same kind.
    Fix: Drop the line from registry.yaml.
    """
    known = all_rules()
    for id, reason in subject.entry.ignore.items():
        if id not in known or id in subject.fired or known[id].last or known[id].gate not in subject.judged:
            continue
        if set(STAGES_OF_GATE[known[id].gate]) <= set(subject.facts.completed):
            yield Found(
                f"{id} is ignored but finds nothing ({known[id].title})",
                {"ignored": id, "reason": reason},
                _in_registry(subject),
            )
