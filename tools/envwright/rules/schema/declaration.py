"""Rules of an environment's entry in registry.yaml: what it declares, and which rules it ignores or knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from envwright.declarations.keys import RuleSetting
from envwright.declarations.problem import Problem, nearest
from envwright.facts.observed import Place
from envwright.facts.stages import needed_by
from envwright.rules.engine import Finding, Found, Gate, Rule, Subject, all_rules, apply, rule
from envwright.rules.evidence import Evidence
from envwright.text.plain_data import counted

RULE = "SCH012"


@dataclass(frozen=True)
class DeclarationSubject:
    """An environment of which only the problems of its declaration are known."""

    gates: ClassVar[tuple[Gate, ...]] = ()

    problems: tuple[Problem, ...]
    ignore: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, RuleSetting] = field(default_factory=dict)


def declaration_findings(problems: tuple[Problem, ...]) -> tuple[Finding, ...]:
    """A finding for each mistake in the declaration of an environment."""
    return tuple(apply(all_rules()[RULE], DeclarationSubject(problems)))


@rule(RULE, gate="schema", protects="releases")
def declaration_is_wrong(subject: DeclarationSubject | Subject) -> Iterator[Found]:
    """The environment is declared wrongly or incompletely.

    What: The folder is in registry.yaml, and its pyproject.toml, requirements.lock, sources and cases can be read and
        fit each other.
    Why: The environment can be neither built nor observed. Other environments are not affected.
    Fix: Correct the file that the message names.
    """
    for problem in subject.problems:
        message = f"{problem.file}{f', {problem.path}' if problem.path else ''} {problem.message}"
        details = {"found": problem.found, "allowed": problem.allowed, "nearest": problem.nearest}
        yield Found(
            message,
            Evidence(details={label: text for label, text in details.items() if text and text not in message}),
            Place(f"../../{problem.file}", problem.line),  # which is relative to the environment's folder
            fix=problem.fix or None,
        )


def _in_registry(subject: Subject) -> Place:
    return Place("../../registry.yaml", subject.entry.line)


@rule("SCH090", gate="schema", severity="warning")
def ignored_rule_does_not_exist(subject: Subject) -> Iterator[Found]:
    """The registry ignores a rule that does not exist.

    What: Every id under `ignore` and `known` in registry.yaml is the id of a rule.
    Why: A misspelled id ignores nothing.
    Fix: Correct the id or remove the line. docs/rules.md lists all rules.
    """
    known = all_rules()
    listed = {rule: findings.reason for rule, findings in subject.entry.known.items()}
    for ignored, reason in {**listed, **subject.entry.ignore}.items():
        if ignored not in known:
            meant = nearest(ignored, known)
            hint = f"; did you mean {meant}?" if meant else ""
            yield Found(
                f"{ignored} is {'ignored' if ignored in subject.entry.ignore else 'known'} but is not a rule{hint}",
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


@rule("SCH092", gate="schema", severity="warning", last=True)
def baseline_can_shrink(subject: Subject) -> Iterator[Found]:
    """Fewer findings exist than the registry lists as known.

    What: Every rule under `known` in registry.yaml has as many findings as its count. Reported only if its whole gate
        was observed.
    Why: A count that is too high lets new findings of the same rule pass.
    Fix: Lower the count in registry.yaml, or remove the line if none is left.
    """
    for listed, findings in subject.entry.known.items():
        rule, count = all_rules().get(listed), subject.fired.get(listed, 0)
        if rule is not None and count < findings.count and _could_fire(rule, subject):
            yield Found(
                f"{listed} has {counted(count, 'finding')}, and the registry lists {findings.count} as known",
                Evidence(count=count, expected=findings.count, details={"since": findings.since}),
                _in_registry(subject),
                fix=f"Set `known: {listed}: count` to {count}." if count else f"Remove {listed} from `known`.",
            )


def _could_fire(known: Rule, subject: Subject) -> bool:
    """Whether the rule was applied to everything that its gate needs."""
    observed = set(needed_by(known.gate)) <= set(subject.facts.completed)
    looked = subject.comparison is not None or not known.compares
    return known.gate in subject.judged and observed and looked and not known.last
