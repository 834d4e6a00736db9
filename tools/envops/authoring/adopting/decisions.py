"""What only the author of an adopted environment can decide, and the command to go on with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from envops.authoring.adopting.skeleton import ORACLE_FILE
from envops.authoring.adopting.staging import Adoption
from envops.reports.summary import LONGEST_COMMAND_NAMES
from envops.rules.result import DECIDING, EnvironmentResult, finding_kind

SECRET_RULES = ("SCH042",)
DATA_RULES = ("SCH043",)


@dataclass(frozen=True)
class Decision:
    """A question that the code does not answer."""

    question: str
    where: str
    """What to edit."""


def decisions_of(adoption: Adoption, result: EnvironmentResult | None) -> Iterator[Decision]:
    """The open questions of one environment, the weightiest first."""
    rules = {finding.rule: finding for finding in result.findings} if result else {}
    for rule in DATA_RULES:
        if rule in rules:
            yield Decision("which data it is checked on: loading needs the network", f"registry.yaml, {adoption.name}")
    for rule in SECRET_RULES:
        if rule in rules:
            yield Decision(
                "which variables its code may see: loading needs a secret", f"registry.yaml, {adoption.name}: secrets"
            )
    if ORACLE_FILE in adoption.added:
        yield Decision("what a perfect model replies", f"{adoption.folder}/{ORACLE_FILE}")
    if not adoption.owners:
        yield Decision("who reviews it", f"registry.yaml, {adoption.name}: owners")


def next_command(adoptions: Sequence[Adoption], results: Sequence[EnvironmentResult]) -> str:
    """The one command that helps most."""
    folders = " ".join(one.folder for one in adoptions) if len(adoptions) <= LONGEST_COMMAND_NAMES else "environments"
    open_names = [result.name for result in results if result.verdict != "pass"]
    if results and not open_names:
        return f"git add {folders} registry.yaml CODEOWNERS && git commit"
    names = open_names or [adoption.name for adoption in adoptions]
    return "nox -s validate" if len(names) > LONGEST_COMMAND_NAMES else f"nox -s validate -- {' '.join(names)}"


def causes_of(result: EnvironmentResult) -> list[tuple[str, str]]:
    """The findings that decide, as rule and message."""
    return [(finding.rule, finding.message) for finding in result.findings if finding_kind(finding) in DECIDING]
