"""Decisions that only the author of an adopted environment can make, and the next command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envwright.authoring.adopting.skeleton import ORACLE_FILE
from envwright.authoring.adopting.staging import Adoption
from envwright.reports.summary import LONGEST_COMMAND_NAMES
from envwright.reports.summary import next_command as next_of_validation
from envwright.rules.result import EnvironmentResult, ValidationResult

SECRET_RULE = "SCH042"


@dataclass(frozen=True)
class Decision:
    """A question that the code leaves open."""

    question: str
    where: str
    """What to edit."""


def decisions_of(adoption: Adoption, result: EnvironmentResult | None) -> Iterator[Decision]:
    """The open questions of one environment, the most important first."""
    entry = f"registry.yaml, {adoption.name}"
    for question in adoption.questions:
        yield Decision(question, entry)
    if result and any(finding.rule == SECRET_RULE for finding in result.findings):
        yield Decision("which variables to pass to its code: loading needs a secret", f"{entry}: secrets")
    if ORACLE_FILE in adoption.added:
        yield Decision("the reply of a perfect model (oracle)", f"{adoption.folder}/{ORACLE_FILE}")
    if not adoption.owners:
        yield Decision("who reviews it", f"{entry}: owners")
    if adoption.known:
        rules = ", ".join(adoption.known)
        yield Decision(f"when to fix the known findings ({rules})", f"{entry}: known")


def next_command(adoptions: Sequence[Adoption], results: Sequence[EnvironmentResult]) -> str:
    """The one command that helps most."""
    names = [one.name for one in adoptions]
    if not results:
        return _validate(names)
    unmet = [result for result in results if result.verdict != "pass"]
    if not unmet:
        folders = [one.folder for one in adoptions] if len(adoptions) <= LONGEST_COMMAND_NAMES else ["environments"]
        return f"git add {' '.join(folders)} registry.yaml CODEOWNERS && git commit"
    if lacking := [one.name for one in adoptions if one.lacks_data][:LONGEST_COMMAND_NAMES]:
        return f"envwright prepare {' '.join(lacking)}"
    if len(unmet) > 1 or any(ORACLE_FILE in one.added for one in adoptions):
        return _validate([result.name for result in unmet])
    return next_of_validation(ValidationResult(unmet[0].verdict, unmet))


def _validate(names: Sequence[str]) -> str:
    return "envwright validate" if len(names) > LONGEST_COMMAND_NAMES else f"envwright validate {' '.join(names)}"
