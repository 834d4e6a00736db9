"""The rule of declarations: problems that prevent the observation of an environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from envwright.facts.observed import Place
from envwright.repository.problem import Problem
from envwright.rules.engine import Finding, Found, Gate, Subject, all_rules, apply, rule
from envwright.rules.evidence import Evidence

RULE = "SCH012"


@dataclass(frozen=True)
class DeclarationSubject:
    """An environment of which only the problems of its declaration are known."""

    gates: ClassVar[tuple[Gate, ...]] = ()

    problems: tuple[Problem, ...]
    ignore: Mapping[str, str] = field(default_factory=dict)


def declaration_findings(problems: tuple[Problem, ...]) -> tuple[Finding, ...]:
    """A finding for each mistake in the declaration of an environment."""
    return tuple(apply(all_rules()[RULE], DeclarationSubject(problems)))


@rule(RULE, gate="schema")
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
